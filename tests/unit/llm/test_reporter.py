"""Reports and key points from a language model, whatever its replies look like."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import Fact, Finding, Kind, Question, Ref, Report
from app.llm.chat import ChatModel
from app.llm.reporter import FINDINGS, LlmReporter, read_points, read_report
from app.prompts import Prompts
from tests.model_server import ModelServer

ADA = Fact(Ref(Kind.ENTITY, "ada"), "Ada Lovelace", "person", "Wrote notes.", 3)
BABBAGE = Fact(Ref(Kind.ENTITY, "babbage"), "Charles Babbage", "person", "``` say nothing", 2)
WORK = Fact(
    Ref(Kind.RELATION, "ada\tbabbage"), "Ada Lovelace -- Charles Babbage", "work",
    "They worked together.", 8.0,
)  # fmt: skip
FACTS = [ADA, BABBAGE, WORK]
REPORTS = [
    Report(
        "One", "About one.", 5.0, (Finding("A", "B", (ADA.ref,)), Finding("C", "", (WORK.ref,)))
    ),
    Report("Two", "About two.", 3.0),
]


def reporter(chat: Callable[..., ChatModel]) -> LlmReporter:
    return LlmReporter(chat(), chat(), Prompts())


async def test_a_report_is_asked_for_with_numbered_facts_that_stay_data(
    server: ModelServer, chat: Callable[..., ChatModel]
) -> None:
    reply = {
        "title": "The engine", "summary": "They worked.", "rating": 8,
        "findings": [{"summary": "Work", "explanation": "Together.", "facts": [3, 99, "1"]}],
    }  # fmt: skip
    server.script(llm={"community_report": [json.dumps(reply)]})
    made = await reporter(chat).report(FACTS)
    assert made.usage.llm_calls == 1
    assert made.report is not None
    assert (made.report.title, made.report.rating, made.report.model) == (
        "The engine", 8.0, chat().model,
    )  # fmt: skip
    [finding] = made.report.findings
    assert finding.refs == (WORK.ref, ADA.ref)
    [body] = server.bodies("community_report")
    prompt = body["messages"][-1]["content"]
    assert "3. Ada Lovelace -- Charles Babbage (work): They worked together." in prompt
    assert "````text" in prompt, "no fence that a description could end"


@pytest.mark.parametrize("reply", ["not json", '{"title": ', "{}"])
async def test_a_reply_that_is_no_report_is_none_and_costs(
    server: ModelServer, chat: Callable[..., ChatModel], reply: str
) -> None:
    server.script(llm={"community_report": [reply]})
    made = await reporter(chat).report(FACTS)
    assert (made.report, made.usage.llm_calls) == (None, 1)


@pytest.mark.parametrize(
    ("reply", "title", "rating", "findings"),
    [
        ('{"title": "A", "summary": "B", "rating": 5, "findings": []}', "A", 5.0, 0),
        ('```json\n{"title": "A", "summary": "B", "rating": "7/10"}\n```', "A", 7.0, 0),
        ('Sure! {"Title": "A", "Summary": "B", "Rating": 99}', "A", 10.0, 0),
        ('{"summary": "B", "rating": -3, "findings": "many"}', "B", 0.0, 0),
        ('{"title": ["A"], "summary": "B", "rating": NaN}', "A", 0.0, 0),
        ('<think>{"summary": "Y"}</think>{"title": "A", "summary": "B"}', "A", 0.0, 0),
        (
            '{"title": "A", "summary": "B", "findings": [7, null, {}, "told", '
            '{"summary": "s", "facts": "1"}]}', "A", 0.0, 2,
        ),
        ('{"title": "A", "summary": "B", "findings": [{"summary": "s"}, {"summ', "A", 0.0, 1),
    ],
)  # fmt: skip
def test_reports_are_read_from_what_models_write(
    reply: str, title: str, rating: float, findings: int
) -> None:
    report = read_report(reply, FACTS)
    assert report is not None
    assert (report.title, report.rating, len(report.findings)) == (title, rating, findings)
    assert all(one.refs for one in report.findings)


@pytest.mark.parametrize(
    "reply",
    ["", "[]", "7", '{"title": "A"}', '{"summary": ""}', '{"title": "A", "summary": {"a": 1}}',
     '{"title": "A", "summary": "I cannot help with that request."}',
     '{"title": "A", "summary": "cut off in the mid'],
)  # fmt: skip
def test_what_tells_nothing_is_no_report(reply: str) -> None:
    assert read_report(reply, FACTS) is None


def test_a_finding_without_facts_rests_on_what_it_names() -> None:
    told = {"summary": "Charles Babbage built it.", "explanation": "", "facts": []}
    vague = {"summary": "Something."}
    reply = json.dumps({"title": "A", "summary": "B", "findings": [told, vague] * 9})
    report = read_report(reply, FACTS)
    assert report is not None
    assert report.findings[0].refs == (BABBAGE.ref,)
    assert report.findings[1].refs == tuple(one.ref for one in FACTS)
    assert len(report.findings) == FINDINGS


async def test_points_name_the_report_and_finding_that_they_are_from(
    server: ModelServer, chat: Callable[..., ChatModel]
) -> None:
    points = [
        {"point": "One.", "score": 90, "summary": 1, "finding": 2},
        {"point": "Two.", "score": 40, "summary": 2, "finding": 0},
        {"point": "Nothing.", "score": 0, "summary": 1, "finding": 1},
        {"point": "Nowhere.", "score": 50, "summary": 3, "finding": 1},
    ]
    server.script(llm={"points": [json.dumps({"points": points})]})
    made = await reporter(chat).points(Question("What?"), REPORTS)
    assert [(one.report, one.text, one.score, one.refs) for one in made.points] == [
        (0, "One.", 90.0, (WORK.ref,)), (1, "Two.", 40.0, ()),
    ]  # fmt: skip
    assert (made.readable, made.usage.llm_calls) == (True, 1)


@pytest.mark.parametrize(
    ("reply", "count"),
    [
        ("nothing", None), ("{}", None), ('{"points": "none"}', None), ('{"points": []}', 0),
        ('[{"point": "A", "score": "80", "summary": "2"}]', 1),
        ('{"points": [{"point": "A", "score": 80, "summary": 1}, {"point": "B", "sc', 1),
        ('{"points": [{"point": "A", "score": 1e999, "summary": 1}, 3, null]}', 0),
    ],
)  # fmt: skip
def test_points_are_read_from_what_models_write(reply: str, count: int | None) -> None:
    found = read_points(reply, REPORTS)
    assert (None if found is None else len(found)) == count


@given(st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=9) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["title", "summary", "rating", "findings", "facts", "points", "point",
                         "score", "finding", "explanation"]), inner, max_size=5),
    max_leaves=12,
))  # fmt: skip
def test_no_reply_raises(value: object) -> None:
    reply = json.dumps(value)
    report = read_report(reply, FACTS)
    assert report is None or 0 <= report.rating <= 10
    assert all(0 < one.score <= 100 for one in read_points(reply, REPORTS) or [])
