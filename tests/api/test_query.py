"""Questions over HTTP: answers with citations that resolve, streams, filters, honest notices."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from app.api.questions import QuestionBody
from app.domain import Budget, Completion, Context, Keywords, Mode, Prompt, Question, Turn, Usage
from app.errors import Overloaded, Unavailable
from app.llm.chat import ChatModel, Price
from app.llm.http import Endpoint, ModelClient, open_http
from app.llm.rewriter import LlmRewriter
from app.ports import Services
from app.prompts import Prompts
from app.query.absence import SENTENCES
from tests.api.conftest import Site, assert_problem, embedded
from tests.api.test_events import parse
from tests.model_server import running

AMBER = (
    "Amber is a fossil resin. Amber is found at the Baltic Sea. "
    "Johanna Weber collected amber at the Baltic Sea for the Museum of Gdansk."
)
BASALT = (
    "Basalt is a volcanic rock. Basalt is found in Iceland. "
    "Magnus Olsen studied basalt in Iceland for the University of Oslo."
)
ASKED = "Who collected amber at the Baltic Sea?"


@pytest.fixture(scope="module")
async def services(
    tmp_path_factory: pytest.TempPathFactory, valkey_url: str
) -> AsyncIterator[Services]:
    """One for all tests of this file: they only ask."""
    async with embedded(tmp_path_factory.mktemp("site"), valkey_url) as opened:
        yield opened


@pytest.fixture
async def asked(site: Site) -> Site:
    """A service that knows two documents."""
    if (await site.client.get("/documents/counts")).json()["ready"] < 2:
        await site.add(AMBER, id="amber", name="amber.txt", metadata={"shelf": "a"})
        await site.add(BASALT, id="basalt", name="basalt.txt", metadata={"shelf": "b"})
    return site


class Writer:
    """An answerer of a language model, as far as the API can see it."""

    model = "scribe-1"

    def __init__(self, *pieces: str, fault: Exception | None = None) -> None:
        self.pieces, self.fault, self.asked = pieces, fault, 0

    async def answer(self, question: Question, context: Context) -> AsyncIterator[str | Usage]:
        self.asked += 1
        for piece in self.pieces:
            yield piece
        if self.fault:
            raise self.fault
        yield Usage(1, 100, 20, 0.5)

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked += 1
        return Completion("".join(self.pieces), Usage(1, 10, 5, 0.1))


def written_by(site: Site, writer: Writer) -> None:
    changed(site, answerer=writer)


def changed(site: Site, **roles: Any) -> None:
    deployed = site.app.state.deployment
    models = replace(deployed.services.models, **roles)
    site.app.state.deployment = replace(
        deployed, services=replace(deployed.services, models=models)
    )


async def ask(site: Site, **body: Any) -> dict[str, Any]:
    reply = await site.client.post("/query", json=body)
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


@pytest.mark.parametrize(
    "mode", ["naive", "local", "global", "hybrid", "mix", "ppr", "subgraph", "asr"]
)
async def test_every_mode_answers_with_citations_that_resolve(asked: Site, mode: str) -> None:
    answer = await ask(asked, query=ASKED, mode=mode)
    assert answer["mode"] == mode
    assert answer["found"]
    assert "Johanna Weber" in answer["answer"]
    marks = {int(mark) for mark in re.findall(r"\[(\d+)\]", answer["answer"])}
    assert marks == {citation["number"] for citation in answer["citations"]}
    assert marks
    for citation in answer["citations"]:
        text = (await asked.client.get(f"/documents/{citation['document_id']}/text")).text
        assert text[citation["start"] : citation["end"]] == citation["quote"]
        assert citation["document_name"] == f"{citation['document_id']}.txt"
    assert answer["timings_ms"]["total"] > 0


async def test_asr_tells_what_it_gathered_and_how_it_scored(asked: Site) -> None:
    options = {"anchors": 4, "budget": 50, "hops_topic": 1, "scorer": "prior"}
    answer = await ask(asked, query=ASKED, mode="asr", asr=options, explain=True)
    explain = answer["explain"]
    assert explain["scorer"] == "prior"
    assert 0 < explain["pool"]["relations"] <= 50
    assert len(explain["anchors"]) <= 4
    assert explain["relations"][0]["parts"].keys() >= {"likeness", "prox", "chain", "pull"}


async def test_parts_of_asr_are_left_out_for_measurements_only(asked: Site) -> None:
    body = {"query": ASKED, "mode": "asr", "asr": {"ablate": ["anchors"]}}
    reply = await asked.client.post("/query", json=body)
    assert (reply.status_code, reply.json()["code"]) == (400, "ablation")
    whole = await ask(asked, **body, only_context=True, explain=True)
    assert whole["explain"]["anchors"] == []
    reply = await asked.client.post("/query/context", json=body)
    assert reply.status_code == 200


@pytest.mark.parametrize(
    "options",
    [{"anchors": 65}, {"budget": 3001}, {"hops_topic": 4}, {"scorer": "best"}, {"ablate": ["all"]}],
)
async def test_options_of_asr_have_limits(asked: Site, options: dict[str, Any]) -> None:
    reply = await asked.client.post("/query", json={"query": ASKED, "mode": "asr", "asr": options})
    assert reply.status_code == 422


async def test_without_a_language_model_the_answer_says_so(asked: Site) -> None:
    answer = await ask(asked, query=ASKED)
    assert answer["model"] is None
    assert answer["notice"].startswith("No language model wrote this answer")
    assert answer["usage"]["llm_calls"] == 0
    assert answer["context"] is None
    assert answer["explain"] is None


async def test_with_a_language_model_the_answer_names_it_and_its_cost(asked: Site) -> None:
    written_by(asked, Writer("Johanna Weber", " did [1]."))
    answer = await ask(asked, query=ASKED)
    assert (answer["model"], answer["notice"]) == ("scribe-1", None)
    assert answer["answer"] == "Johanna Weber did [1]."
    usage = answer["usage"]
    assert (usage["llm_calls"], usage["prompt_tokens"], usage["cost"]) == (1, 100, 0.5)
    metrics = (await asked.client.get("/metrics")).text
    assert 'heliograph_query_tokens_total{kind="prompt"} 100.0' in metrics


async def test_when_nothing_is_found_no_model_is_asked(asked: Site) -> None:
    writer = Writer("never")
    written_by(asked, writer)
    for body in (
        {"query": ASKED, "filters": {"shelf": "nowhere"}},
        {"query": ASKED, "filters": {"document_id": ["nope"]}},
    ):
        answer = await ask(asked, **body)
        assert not answer["found"]
        assert answer["citations"] == []
        assert "Nothing relevant" in answer["notice"]
        assert answer["answer"]
    assert writer.asked == 0
    metrics = (await asked.client.get("/metrics")).text
    assert 'heliograph_queries_total{mode="mix",outcome="nothing_found"} 2.0' in metrics


async def test_metrics_tell_where_time_went_and_what_was_scored(asked: Site) -> None:
    for mode in ("asr", "subgraph", "mix"):
        await ask(asked, query=ASKED, mode=mode)
    metrics = (await asked.client.get("/metrics")).text
    for mode in ("asr", "subgraph"):
        assert f'heliograph_asr_pool_relations_count{{mode="{mode}"}} 1.0' in metrics
        assert f'heliograph_asr_scorer_total{{mode="{mode}",scorer="prior"}} 1.0' in metrics
        assert f'heliograph_query_stage_seconds_count{{mode="{mode}",stage="pool"}} 1.0' in metrics
    assert 'heliograph_query_stage_seconds_count{mode="mix",stage="total"} 1.0' in metrics
    assert 'heliograph_asr_pool_relations_count{mode="mix"}' not in metrics
    assert "heliograph_asr_truncated_total{" not in metrics


async def test_where_no_sentence_fits_one_sentence_says_so(asked: Site) -> None:
    """The same one whether retrieval or the built-in answerer found out."""
    said = set()
    for question in ("Which galaxies did Weber photograph in Chile?", "Which galaxies are red?"):
        answer = await ask(asked, query=question)
        assert not answer["found"]
        assert answer["citations"] == []
        assert "Nothing relevant" in answer["notice"]
        said.add(answer["answer"])
    assert said == {SENTENCES["en"]}


async def test_filters_leave_only_evidence_of_matching_documents(asked: Site) -> None:
    for mode in ("naive", "local", "global", "hybrid", "mix"):
        answer = await ask(
            asked, query="What is found where?", mode=mode, only_context=True,
            filters={"shelf": "b"},
        )  # fmt: skip
        context = answer["context"]
        assert {chunk["document_id"] for chunk in context["chunks"]} <= {"basalt"}
        for one in (*context["entities"], *context["relations"]):
            assert "amber" not in one["text"].lower()


async def test_only_context_stops_before_the_answer(asked: Site) -> None:
    writer = Writer("never")
    written_by(asked, writer)
    answer = await ask(asked, query=ASKED, only_context=True)
    same = (await asked.client.post("/query/context", json={"query": ASKED})).json()
    assert same["context"] == answer["context"]
    assert (answer["answer"], answer["citations"], writer.asked) == ("", [], 0)
    chunk = answer["context"]["chunks"][0]
    assert (chunk["number"], chunk["document_id"]) == (1, "amber")
    text = (await asked.client.get("/documents/amber/text")).text
    assert text[chunk["start"] : chunk["end"]] == chunk["text"]
    assert answer["context"]["entities"]
    assert {"id", "name", "type", "text", "score"} <= set(answer["context"]["entities"][0])
    assert answer["context"]["tokens"] > 0


async def test_explain_tells_how_the_answer_came_about(asked: Site) -> None:
    answer = await ask(asked, query=ASKED, mode="hybrid", explain=True)
    assert answer["explain"]["mode"] == "hybrid"
    assert answer["explain"]["keywords"]["low"]
    assert answer["context"]["chunks"]


async def test_a_stream_has_context_tokens_and_the_whole_answer(asked: Site) -> None:
    written_by(asked, Writer("Johanna", " Weber", " did [1]."))
    reply = await asked.client.post("/query", json={"query": ASKED, "stream": True})
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["cache-control"] == "no-store"
    events = parse(reply.text)
    names = [name for name, _, _ in events]
    assert names[0] == "context"
    assert names[-1] == "done"
    assert set(names[1:-1]) == {"token"}
    assert [number for _, number, _ in events] == list(range(1, len(events) + 1))
    text = "".join(data["text"] for name, _, data in events if name == "token")
    done = events[-1][2]
    assert text == done["answer"] == "Johanna Weber did [1]."
    assert done["citations"][0]["document_id"] == "amber"
    assert events[0][2]["chunks"][0]["document_id"] == "amber"


async def test_a_fault_in_a_stream_is_its_last_event(
    asked: Site, caplog: pytest.LogCaptureFixture
) -> None:
    written_by(asked, Writer("Johanna", fault=Unavailable("The model does not answer.")))
    reply = await asked.client.post("/query", json={"query": ASKED, "stream": True})
    name, _, problem = parse(reply.text)[-1]
    assert (name, problem["code"], problem["status"]) == ("error", "unavailable", 503)
    assert [record for record in caplog.records if record.exc_info] == []


async def test_a_fault_without_a_stream_is_a_problem(asked: Site) -> None:
    written_by(asked, Writer("Johanna", fault=Overloaded("The model is busy.", retry_after=7)))
    reply = await asked.client.post("/query", json={"query": ASKED})
    assert_problem(reply, 429, "overloaded", "busy")
    assert reply.headers["retry-after"] == "7"


async def test_bypass_needs_a_model_and_asks_it_alone(asked: Site) -> None:
    reply = await asked.client.post("/query", json={"query": ASKED, "mode": "bypass"})
    assert_problem(reply, 422, "no_model", "HELIOGRAPH_LLM_URL")
    written_by(asked, Writer("I do not know."))
    answer = await ask(asked, query=ASKED, mode="bypass")
    assert (answer["answer"], answer["citations"]) == ("I do not know.", [])


@pytest.mark.parametrize("mode", ["hyde", "rq"])
async def test_modes_that_have_a_model_rewrite_the_question_need_one(
    asked: Site, mode: str
) -> None:
    reply = await asked.client.post("/query", json={"query": ASKED, "mode": mode})
    assert_problem(reply, 422, "no_model", f"Mode {mode}")
    reply = await asked.client.post("/query/context", json={"query": ASKED, "mode": mode})
    assert_problem(reply, 422, "no_model")
    reply = await asked.client.post("/query", json={"query": ASKED, "mode": mode, "stream": True})
    assert [name for name, _, _ in parse(reply.text)] == ["error"]


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "hyde"}, {"mode": "hyde", "hyde_passages": 1}, {"mode": "rq"},
        {"mode": "rq", "rq_base": "hybrid"}, {"mode": "rq", "rq_sequential": True},
    ],
)  # fmt: skip
async def test_a_model_rewrites_the_question_and_is_charged(
    asked: Site, body: dict[str, Any]
) -> None:
    async with running() as server, open_http() as http:
        endpoint = Endpoint(f"openai+http://{server.host}/v1")
        tokenizer = asked.services.models.tokenizer
        chat = ChatModel(ModelClient(http, endpoint), "scripted", tokenizer, price=Price(1.0, 1.0))
        written_by(asked, Writer("Johanna Weber did [1]."))
        changed(asked, rewriter=LlmRewriter(chat, Prompts()))
        answer = await ask(asked, query=f"{ASKED} Or was it Otto Braun?", explain=True, **body)
    kind = "hyde" if body["mode"] == "hyde" else "decompose"
    assert server.calls(kind) == 1
    assert answer["mode"] == answer["explain"]["mode"] == body["mode"]
    assert answer["citations"]
    assert answer["usage"]["llm_calls"] == 2
    assert answer["usage"]["cost"] > 0.5
    if body["mode"] == "hyde":
        assert len(answer["explain"]["passages"]) == body.get("hyde_passages", 3)
    else:
        assert answer["explain"]["rewriting"]["base"] == body.get("rq_base", "mix")
        assert len(answer["explain"]["rewriting"]["queries"]) > 1


async def test_no_question_or_answer_is_logged(
    asked: Site, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="heliograph"):
        await ask(asked, query=ASKED)
    lines = "\n".join(record.getMessage() for record in caplog.records)
    assert "route=/query" in lines
    assert "workspace=default" in lines
    assert "amber" not in lines.lower()
    assert "Johanna" not in lines


def test_a_body_becomes_the_question_it_says() -> None:
    body = QuestionBody.model_validate(
        {
            "query": " why? ", "mode": "local", "top_k": 7, "chunk_top_k": 3,
            "budget": {"entities": 1, "relations": 2, "total": 3},
            "keywords": {"low": [" a "], "high": ["b"]}, "keyword_source": "query",
            "conversation": [
                {"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes"},
                {"role": "user", "content": "why?"},
            ],
            "response_type": "List", "language": "German", "mix_style": "lightrag",
            "low_level": False, "high_level": False, "source_text": False,
            "hyde_passages": 5, "rq_base": "naive", "rq_sequential": True,
        }
    )  # fmt: skip
    assert body.question("lab", ("d",)) == Question(
        "why?", "lab", Mode.LOCAL, 7, 3, Budget(1, 2, 3), ("d",),
        (Turn("user", "hello"), Turn("assistant", "yes")), Keywords(("a",), ("b",)), "query",
        "List", "German", False, False, False, "lightrag", 5, Mode.NAIVE, True,
    )  # fmt: skip


def test_an_empty_body_is_the_default_question() -> None:
    assert QuestionBody(query="why?").question("lab", None) == Question("why?", workspace="lab")
