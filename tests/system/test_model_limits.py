"""Several processes ask one model endpoint for all that they can get: it never refuses a call."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from tests.model_server import running
from tests.system.stack import ROOT

PROCESSES = 4
CALLERS = 12  # in each process


async def _hammer(redis_url: str, model_url: str, told: dict[str, Any]) -> list[dict[str, int]]:
    command = [sys.executable, "-m", "tests.system.hammer", redis_url, model_url, json.dumps(told)]
    started = [
        await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
        for _ in range(PROCESSES)
    ]
    said = [await process.communicate() for process in started]
    assert [process.returncode for process in started] == [0] * PROCESSES
    return [json.loads(output) for output, _ in said]


@pytest.mark.server
@pytest.mark.parametrize(
    ("window", "limits"),
    [
        ("sliding", {"parallel": 3, "requests": 0, "tokens": 0}),
        ("sliding", {"parallel": 5, "requests": 60, "tokens": 0}),
        ("sliding", {"parallel": 5, "requests": 60, "tokens": 4000}),
        ("fixed", {"parallel": 5, "requests": 60, "tokens": 4000}),
    ],
)
async def test_four_processes_together_keep_to_the_limits_of_an_endpoint(
    redis_url: str, window: str, limits: dict[str, int]
) -> None:
    period = 4.0
    async with running() as server:
        server.script(latency_s=0.05, quota={**limits, "period_s": period, "window": window})
        told = {
            "concurrency": limits["parallel"], "requests": limits["requests"],
            "tokens": limits["tokens"], "period_s": period, "callers": CALLERS, "seconds": 9,
        }  # fmt: skip
        said = await _hammer(redis_url, f"openai+http://{server.host}/v1", told)
        quota = server.state.quota
        assert quota is not None
        assert {what: len(times) for what, times in quota.refused.items()} == {
            "parallel": 0, "requests": 0, "tokens": 0,
        }  # fmt: skip
        assert all(one["answered"] > 0 for one in said), "no process starves"
        assert not any(one["failed"] for one in said)
        assert server.state.max_parallel <= limits["parallel"]


@pytest.mark.server
async def test_an_endpoint_that_counts_what_a_call_may_use_refuses_in_the_beginning_only(
    redis_url: str,
) -> None:
    period = 4.0
    async with running() as server:
        quota = {"parallel": 5, "tokens": 3000, "period_s": period, "count": "asked"}
        server.script(latency_s=0.05, quota=quota)
        told = {
            "concurrency": 5, "requests": 0, "tokens": 3000, "period_s": period,
            "callers": CALLERS, "seconds": 14,
        }  # fmt: skip
        said = await _hammer(redis_url, f"openai+http://{server.host}/v1", told)
        kept = server.state.quota
        assert kept is not None
        assert kept.first is not None
        late = [at for at in kept.refused["tokens"] if at > kept.first + 2 * period]
        assert not late
        assert kept.refused["parallel"] == kept.refused["requests"] == []
        assert all(one["answered"] > 0 for one in said)
