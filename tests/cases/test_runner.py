"""The runner itself: what it understands, and that it fails what is to fail."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cases import runner as runner_module
from tests.cases.model_checks import _outside_fences
from tests.cases.record import Case, Unusable, evaluate, filled, filled_path, load, script
from tests.cases.runner import Result, Runner, main, needs_own, needs_servers, running, stacks_of
from tests.cases.settings import translated
from tests.cases.wire import Counts, Fault, proxies
from tests.model_server import running as model_running

TEXT = "Ada Lovelace worked with Charles Babbage in London."
UPLOAD = {"op": "upload", "as": "d1", "json": {"text": TEXT, "name": "note.txt"}}
WAIT = {"op": "wait", "doc": "d1", "until": "final", "within_s": 60}
QUERY = {"op": "query", "as": "q1", "json": {"query": "Who worked with Charles Babbage?"}}


def case(*steps: dict[str, Any], check: list[dict[str, Any]], **more: Any) -> Case:
    return Case.of({"id": "tiny-1", "area": "tiny", "steps": list(steps), "check": check, **more})


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with running() as made:
        yield made


def run(runner: Runner, *steps: dict[str, Any], check: list[dict[str, Any]], **more: Any) -> Result:
    return runner.run(case(*steps, check=check, **more), "embedded")


# --- a right check passes, a wrong one fails -----------------------------------------------------


RIGHT: list[dict[str, Any]] = [
    {"doc": "d1", "status": "ready", "version": 1},
    {"doc": "d1", "error": False, "warning": False},
    {"documents": 1},
    {"all_ready": True},
    {"originals_match": True},
    {"entities_include": ["ada  lovelace", "Charles Babbage"]},
    {"entities_exclude": ["Grace Hopper"]},
    {"relations_include": [["Charles Babbage", "Ada Lovelace"]]},
    {"relations_exclude": [["Ada Lovelace", "Grace Hopper"]]},
    {"entity": "ADA LOVELACE", "count": 1, "mentions": 1, "type": "concept"},
    {"entity_count": {"min": 2, "max": 5}},
    {"not_merged": [["Ada Lovelace", "Charles Babbage"]]},
    {"names_free_of": ["<|"]},
    {"names_max_chars": 20},
    {"self_loops": 0},
    {"chunks": "d1", "max_tokens": 100, "covers_text": True, "count": 1},
    {"points": {"chunks": 1, "entities": {"min": 2}}},
    {"vectors_finite": True},
    {"zero_vectors": 0},
    {"http": "q1", "status": "2xx", "contains": ["citations"]},
    {"http": "bad", "status": ["404", "5xx"], "problem": True},
    {"header_absent": "q1", "name": "set-cookie"},
    {"header_not": "q1", "name": "content-type", "value": "text/html"},
    {"no_5xx": True},
    {"answer": "q1", "contains": ["[1]"], "lacks": ["Hopper"]},
    {"citations": "q1", "min": 1, "max": 3},
    {"keywords": "q1", "include": ["charles babbage"], "exclude": ["draft"]},
    {"stream": "q2", "ends_with": "done", "contains": ["token"]},
    {"calls": "extract", "max": 1, "min": 1},
    {"calls": "embed", "min": 1},
    {"extract_calls_per_chunk_max": 1},
    {"request": "extract", "contains": [TEXT], "fence_intact": True},
    {"request": "answer", "for": "q1", "contains": ["London"]},
    {"request_tokens_max": 5000},
    {"profile_tokens_max": 200},
    {"seconds_max": 60},
    {"no_outgoing_to": "evil.example"},
    {"file_exists": "{tmp}/here.txt"},
    {"files_outside": 0},
    {"trap_hits": 0},
    {"started": True},
    {"dump_lacks": ["Grace Hopper"]},
    {"round_trips_max": {"store": "model", "max": 5}, "for": "q1"},
    {"round_trips_max": {"store": "graph", "max": 0}, "for": "q1"},
    {"request_bytes_max": {"store": "model", "max": 100_000}},
    {"alive": True},
    {"fingerprint_equals": "undisturbed"},
    {"fingerprint_equals": "only d1"},
]
WRONG: list[dict[str, Any]] = [
    {"doc": "d1", "status": ["failed", "refused"]},
    {"doc": "d1", "version": 2},
    {"doc": "d1", "status": "ready", "error": True},
    {"doc": "d1", "warning": True},
    {"doc": "nobody", "status": "ready"},
    {"documents": 2},
    {"entities_include": ["Grace Hopper"]},
    {"entities_exclude": ["Ada Lovelace"]},
    {"relations_include": [["Ada Lovelace", "Grace Hopper"]]},
    {"entity": "Ada Lovelace", "count": 0},
    {"entity": "Ada Lovelace", "mentions": 2},
    {"entity": "Ada Lovelace", "type": "Person"},
    {"entity_count": {"max": 1}},
    {"not_merged": [["Ada Lovelace", "ada lovelace"]]},
    {"names_free_of": ["Love"]},
    {"names_max_chars": 3},
    {"chunks": "d1", "max_tokens": 3},
    {"points": {"chunks": 2}},
    {"http": "q1", "status": "4xx"},
    {"http": "q1", "problem": True},
    {"http": "q1", "lacks": ["citations"]},
    {"header_absent": "q1", "name": "content-type"},
    {"header_not": "q1", "name": "content-type", "value": "application/json"},
    {"answer": "q1", "contains": ["Hopper"]},
    {"answer": "q2", "lacks": ["[1]"]},
    {"citations": "q1", "max": 0},
    {"keywords": "q1", "exclude": ["Charles Babbage"]},
    {"stream": "q2", "ends_with": "error"},
    {"stream": "q1", "ends_with": "done"},
    {"calls": "extract", "max": 0},
    {"calls": "summary", "min": 1},
    {"extract_calls_per_chunk_max": 0},
    {"request": "extract", "contains": ["Hopper"]},
    {"request": "summary", "fence_intact": True},
    {"request": "answer", "for": "bad", "contains": ["London"]},
    {"request_tokens_max": 5},
    {"profile_tokens_max": 1},
    {"seconds_max": 0},
    {"file_exists": "{tmp}/nothing.txt"},
    {"dump_lacks": ["Ada Lovelace"]},
    {"fingerprint_equals": "without d1"},
    {"fingerprint_equals": "the moon"},
    {"resumed_within_s": 0},
    {"no_call_before_s": 100},
    {"round_trips_max": {"store": "model", "max": 0}, "for": "q1"},
    {"request_bytes_max": {"store": "model", "max": 10}},
    {"calls": "extract"},
    {"no_such_check": True},
]
STEPS: list[dict[str, Any]] = [
    {"op": "touch", "path": "{tmp}/here.txt"},
    {"op": "listen", "as": "trap"},
    UPLOAD,
    WAIT,
    {**QUERY, "json": {**QUERY["json"], "explain": True, "mode": "hybrid"}},
    {"op": "query", "as": "q2", "json": {"query": "Who was Ada Lovelace?", "stream": True}},
    {"op": "http", "as": "bad", "method": "GET", "path": "/documents/nobody"},
]


def test_right_checks_pass(runner: Runner) -> None:
    result = run(runner, *STEPS, check=RIGHT)
    assert result.passed, result.why


def test_each_wrong_check_fails_for_a_reason_of_its_own(runner: Runner) -> None:
    result = run(runner, *STEPS, check=WRONG)
    assert not result.passed
    assert len(result.why.split(" | ")) == len(WRONG), result.why


def test_every_check_was_tried() -> None:
    from tests.cases.checks import CHECKS

    rare = {
        "start", "header", "relation_count", "calls_after_retry_max",
    }  # fmt: skip
    tried = {key for told in (*RIGHT, *WRONG) for key in told}
    assert set(CHECKS) - rare <= tried


# --- what cannot be done is said -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ([{"op": "levitate"}], "levitate"),
        ([{"op": "start", "env": {"NO_SUCH_SETTING": "1"}}], "NO_SUCH_SETTING"),
        ([{"op": "redis", "do": "flush"}], "redis"),
        ([{"op": "fault", "store": "moon", "delay_s": 1}], "moon"),
        ([{"op": "clock"}], "clock"),
        ([{"op": "wait", "doc": "d9"}], "d9"),
        ([UPLOAD, {"op": "until", "doc": "d1", "progress": 2, "stage": "index"}, WAIT], ""),
    ],
)
def test_an_unusable_step_fails_and_is_named(
    runner: Runner, steps: list[dict[str, Any]], named: str
) -> None:
    result = run(runner, *steps, check=[{"doc": "d1", "status": "ready"}])
    assert result.passed is (not named)
    assert named in result.why


def test_one_failing_case_does_not_stop_the_next(runner: Runner) -> None:
    assert not run(runner, {"op": "levitate"}, check=[]).passed
    assert run(runner, UPLOAD, WAIT, check=[{"all_ready": True}]).passed


def test_the_command_fails_when_a_case_does(tmp_path: Path, capsys: Any) -> None:
    good = {"id": "good", "steps": [UPLOAD, WAIT], "check": [{"doc": "d1", "status": "ready"}]}
    bad = {"id": "bad", "steps": [UPLOAD, WAIT], "check": [{"doc": "d1", "status": "failed"}]}
    file = tmp_path / "cases.jsonl"
    file.write_text("\n".join(map(json.dumps, (good, bad))))
    assert main([str(file)]) == 1
    said = capsys.readouterr().out
    assert "1 passed, 1 failed" in said
    assert main([str(file), "--only", "good"]) == 0
    assert main([str(file), "--only", "nothing"]) == 1
    assert main([str(tmp_path / "missing.jsonl")]) == 2
    file.write_text("{")
    assert main([str(file)]) == 2


# --- model answers -------------------------------------------------------------------------------


def test_scripted_answers_reach_the_service(runner: Runner) -> None:
    name = "{'entities': [{'name': 'Zuse'}], 'relationships': []}"
    llm = {
        "extract": [{"python": f"__import__('json').dumps({name})"}],
        "answer": [{"status": 500, "body": "boom"}] * 9,
    }
    result = run(
        runner, UPLOAD, WAIT, QUERY, llm=llm,
        check=[{"entities_include": ["Zuse"]}, {"http": "q1", "status": "5xx", "problem": True}],
    )  # fmt: skip
    assert result.passed, result.why


def test_a_fault_that_holds_for_one_text_is_isolated(runner: Runner) -> None:
    llm = {"extract_match": {"contains": "Babbage", "always": '{"entities": []}'}}
    check = [{"entity_count": 0}, {"calls": "extract", "count": 1}]
    result = run(runner, UPLOAD, WAIT, llm=llm, check=check)
    assert result.passed, result.why


def test_a_script_is_put_into_the_words_of_the_model_server() -> None:
    told = script(
        case(check=[], llm={"format": "lines", "rerank": ["oops", {"status": 500}], "answer": "x",
                            "extract_match": {"contains": "a", "always": {"status": 500}}})
    )["llm"]  # fmt: skip
    assert "format" not in told
    assert told["rerank"][0]["raw"] == "oops"
    assert told["answer"] == ["x"]
    assert len(told["extract_match"][0]["always"]) > 1000


# --- steps that hold others, and what goes round --------------------------------------------------


def test_parallel_and_for_each_and_names(runner: Runner) -> None:
    uploads = {"op": "upload", "as": "p{i}", "json": {"text": "Captain{i} sails.", "name": "{i}"}}
    result = run(
        runner,
        {"op": "parallel", "times": 3, "steps": [uploads]},
        {"op": "for_each", "range": [3, 5], "do": [uploads]},
        {"op": "wait_all"}, {"op": "wait_idle"},
        {"op": "for_each", "docs": ["p0", "p4"],
         "do": {"op": "http", "as": "o", "method": "GET", "path": "/documents/{doc}/original"}},
        {"op": "http", "as": "x", "method": "DELETE", "path": "/documents/{p1}"},
        {"op": "wait_gone", "docs": ["p1"]},
        check=[
            {"entities_include": ["Captain0", "Captain4"]}, {"originals_match": True},
            {"http": "o", "status": 200, "contains": ["sails"]}, {"http": "x", "status": 202},
        ],
    )  # fmt: skip
    assert "p1" in result.why  # it is gone, so its original is not there
    assert result.why.count(" | ") == 0


def test_cases_that_share_a_service_do_not_see_each_other(runner: Runner) -> None:
    steps = ({**UPLOAD, "workspace": "a"}, WAIT)
    check = [{"documents": 1, "workspace": "a"}, {"documents": 0}]
    for _ in range(2):
        result = run(runner, *steps, check=check)
        assert result.passed, result.why


def test_a_killed_service_comes_back_with_what_it_had(runner: Runner) -> None:
    result = run(
        runner, UPLOAD, {"op": "proc", "do": "kill -9", "what": "all"},
        {"op": "proc", "do": "start", "what": "all"}, WAIT,
        check=[{"doc": "d1", "status": "ready"}, {"alive": True},
               {"fingerprint_equals": "undisturbed"}],
    )  # fmt: skip
    assert result.passed, result.why


def test_start_settings_refusals_keys_tokens_and_the_clock(runner: Runner) -> None:
    bearer = {"Authorization": "Bearer {w}"}
    result = run(
        runner,
        {"op": "start", "as": "s", "env": {"CHUNK_SIZE": "-5"}, "expect": "refuse"},
        {"op": "start", "env": {"AUTH": "on", "MAX_UPLOAD_BYTES": "2000"}},
        {"op": "key", "as": "w", "scope": "write", "workspace": "a"},
        {"op": "jwt", "as": "t", "alg": "none", "claims": {"scope": "admin"}},
        {"op": "jwt", "as": "v", "claims": {"scope": "write", "workspace": "a"}},
        {"op": "clock", "forward_s": 3600},
        {"op": "http", "as": "in", "method": "POST", "path": "/documents", "workspace": "a",
         "headers": bearer, "json": {"text": TEXT}},
        {"op": "http", "as": "v", "method": "GET", "path": "/documents", "workspace": "a",
         "headers": {"X-API-Key": "{v}"}},
        {"op": "http", "as": "bare", "method": "GET", "path": "/documents"},
        {"op": "http", "as": "forged", "method": "GET", "path": "/documents",
         "headers": {"Authorization": "Bearer {t}"}},
        {"op": "upload", "as": "big", "json": {"text": {"python": "'x' * 2_000_000"}}},
        {"op": "wait", "doc": "in"},
        check=[
            {"start": "s", "refused": True, "contains": ["CHUNK_TOKENS"]}, {"start": "ok"},
            {"http": "in", "status": 202}, {"http": "v", "status": 200},
            {"http": "bare", "status": 401, "problem": True}, {"http": "forged", "status": 401},
            {"doc": "big", "status": "refused"}, {"doc": "in", "status": "ready"},
        ],
    )  # fmt: skip
    assert result.passed, result.why
    assert "jwt" in " ".join(result.notes)


def test_a_fault_on_the_model_is_felt(runner: Runner) -> None:
    result = run(
        runner, {"op": "fault", "store": "model", "status": 503, "times": 2}, UPLOAD, WAIT,
        {"op": "fault", "store": "model", "off": True},
        check=[{"doc": "d1", "status": "ready"}, {"calls": "extract", "count": 1}],
    )  # fmt: skip
    assert result.passed, result.why


# --- the parts by themselves ---------------------------------------------------------------------


def test_values_are_filled_and_other_braces_stay() -> None:
    names = {"d1": "id/1", "i": 3}
    assert filled({"a": ['{d1} {x} {"b": 1}', {"python": "i * 2"}]}, names) == {
        "a": ['id/1 {x} {"b": 1}', 6]
    }
    assert filled_path("/documents/{d1}/x", names) == "/documents/id%2F1/x"
    assert evaluate("f'{i}' + 'a'", names) == "3a"


def test_a_file_with_a_broken_line_names_it(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"id": "a"}\n\n{"no": 1}\n')
    with pytest.raises(Unusable, match=r"x\.jsonl:3"):
        load(file)


def test_settings_of_cases_are_ours() -> None:
    env = {
        "HELIOGRAPH_LLM_TIMEOUT": 1,
        "EMBEDDING_DIM": "8",
        "CHUNK_TOKENS": "64",
        "AUTH": "on",
        "WORKER_JOB_TIMEOUT": "7200",
        "LLM_MAX_RETRIES": "1",
        "LLM_BASE_URL": "http://h/v1",
    }
    assert translated(env, refused=False) == ({
        "HELIOGRAPH_LLM_TIMEOUT": "1", "HELIOGRAPH_EMBED_DIMENSION": "8",
        "HELIOGRAPH_OPTIONS__CHUNK_TOKENS": "64", "HELIOGRAPH_TRIES": "2",
        "HELIOGRAPH_LLM_URL": "openai+http://h/v1",
    }, True)  # fmt: skip
    assert translated({"WRONG": "1"}, refused=True) == ({"HELIOGRAPH_WRONG": "1"}, False)


def test_cases_go_where_they_can_be_carried_out() -> None:
    def of(*steps: dict[str, Any], **more: Any) -> Case:
        return case(*steps, check=more.pop("check", []), **more)

    assert stacks_of(of(UPLOAD), "embedded") == ["embedded"]
    assert stacks_of(of(UPLOAD), "neo4j") == ["neo4j"]
    wire = [{"round_trips_max": {"store": "graph", "max": 6}}]
    assert stacks_of(of(UPLOAD, check=wire), "embedded") == ["embedded", "neo4j"]
    assert stacks_of(of(UPLOAD, area="stores"), "embedded") == ["embedded", "neo4j"]
    assert needs_servers(of({"op": "fault", "store": "vector", "delay_s": 1}))
    assert not needs_servers(of({"op": "fault", "store": "model", "delay_s": 1}))
    assert needs_servers(of({"op": "parallel", "steps": [{"op": "proc", "what": "worker"}]}))
    assert needs_servers(of({"op": "start", "worker": 3}))
    assert needs_own(of({"op": "http", "path": "/admin/keys"}))
    assert not needs_own(of(UPLOAD, WAIT, QUERY))


def test_text_outside_fences_is_seen() -> None:
    inside = "before\n````\nin\n```\nstill in\n````\nafter"
    assert _outside_fences(inside) == "before\nafter"


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (None, 200),
        (Fault(status=507), 507),
        (Fault(drop="reset"), 0),
        (Fault(drop="refuse"), 0),
        (Fault(drop="after"), 0),
        (Fault(drop="reset", left=0), 200),
        (Fault(delay=0.05), 200),
    ],
)
async def test_a_proxy_counts_and_does_what_its_fault_says(fault: Any, status: int) -> None:
    async with model_running() as model:
        with proxies() as made:
            wire = made.add("model", int(model.host.rpartition(":")[2]))
            wire.fault, wire.counts = fault, Counts()
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{wire.port}") as client:
                body = {"input": ["x" * 100_000]}
                try:
                    got = (await client.post("/v1/embeddings", json=body)).status_code
                except httpx.TransportError:
                    got = 0
            assert got == status
            reached = model.calls("embedding")
            assert reached == (status == 200 or (fault is not None and fault.drop == "after"))
            if status == 200:
                assert wire.counts.exchanges == 1
                assert wire.counts.largest > 100_000


def test_a_proxy_without_a_server_behind_it_hangs_up() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with proxies() as made, pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{made.add('x', port).port}/")


def test_results_are_lines_for_people() -> None:
    line = runner_module._line(Result("a-1", "neo4j", False, "because", 1.5, ("note",)))
    assert line.split()[:3] == ["a-1", "[neo4j]", "FAIL"]
    assert line.endswith("because; note")
