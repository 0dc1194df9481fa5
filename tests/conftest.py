"""Fixtures that several folders of tests share: real servers and the evaluation data.

A test whose server is missing is skipped, the end of the run says what was left out and why, and
in continuous integration (`CI=true`) a missing server is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from tests import servers

LEFT_OUT = pytest.StashKey[dict[str, str]]()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def neo4j(pytestconfig: pytest.Config) -> Iterator[servers.Server]:
    yield from _started(pytestconfig, "Neo4j", servers.neo4j_server)


@pytest.fixture(scope="session")
def redis_url(pytestconfig: pytest.Config) -> Iterator[str]:
    for server in _started(pytestconfig, "Redis", servers.redis_server):
        yield server.url


@pytest.fixture(scope="session")
def valkey_url(pytestconfig: pytest.Config) -> Iterator[str]:
    for server in _started(pytestconfig, "Valkey", servers.valkey_server):
        yield server.url


@pytest.fixture(scope="session")
def shared_dir(pytestconfig: pytest.Config) -> Path:
    """Folder of the evaluation data: `HELIOGRAPH_SHARED`, else `shared` beside the repository."""
    default = pytestconfig.rootpath.parent / "shared"
    folder = Path(os.environ.get("HELIOGRAPH_SHARED") or default)
    if not folder.is_dir():
        _leave_out(pytestconfig, "evaluation data", "HELIOGRAPH_SHARED names no folder")
    return folder


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = {}
    # A gate must say the same of the same commit; elsewhere each run tries other examples.
    settings.register_profile("gate", derandomize=True)
    if os.environ.get("CI") == "true":
        settings.load_profile("gate")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if left_out := config.stash[LEFT_OUT]:
        terminalreporter.section("left out")
        for what, reason in sorted(left_out.items()):
            terminalreporter.line(f"{what}: {reason}")


def _started(
    config: pytest.Config, what: str, start: Callable[[], AbstractContextManager[servers.Server]]
) -> Iterator[servers.Server]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(start())
        except servers.Missing as missing:
            if os.environ.get("CI") == "true":
                pytest.fail(f"{what}: {missing}")
            _leave_out(config, what, str(missing))
        yield server


def _leave_out(config: pytest.Config, what: str, reason: str) -> None:
    config.stash[LEFT_OUT][what] = reason
    pytest.skip(f"{what}: {reason}")
