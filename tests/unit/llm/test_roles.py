"""Profiler, keyworder and answerer: prompts, bounds, and what is made of odd replies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from app.domain import (
    Chunk,
    Context,
    Entity,
    Prompt,
    Question,
    Relation,
    ScoredEntity,
    ScoredRelation,
    Source,
    Turn,
    Usage,
)
from app.errors import BadModelOutput, Invalid, Unavailable
from app.llm.cache import CachedKeyworder, RedisReplies
from app.llm.chat import ChatModel
from app.llm.roles import LlmAnswerer, LlmKeyworder, LlmProfiler
from app.llm.tokens import TiktokenTokenizer
from app.prompts import Prompts
from tests.model_server import ModelServer

Chats = Callable[..., ChatModel]


def _source(number: int, text: str, date: str = "") -> Source:
    chunk = Chunk(f"c{number}", "d", number, 0, len(text), text, 10, ("Part One",), page=3)
    return Source(number, chunk, f"Doc {number}", date, 1.0)


# --- profiler ------------------------------------------------------------------------------------


async def test_a_summary_fits_its_limit_whatever_the_model_writes(
    server: ModelServer, chat: Chats, tokenizer: TiktokenTokenizer
) -> None:
    server.script(llm={"summary": ["<think>hm</think>" + "word " * 500]})
    made = await LlmProfiler(chat(), Prompts()).summarise("Ada", ["One.", "Two."], limit=50)
    assert tokenizer.count(made.text) <= 50
    assert made.text.startswith("word word")
    assert made.usage.llm_calls == 1


async def test_descriptions_beyond_one_call_are_summarised_in_parts(
    server: ModelServer, chat: Chats, tokenizer: TiktokenTokenizer
) -> None:
    model = chat(context_tokens=2048)
    facts = [f"Hub Corp did thing number {i} on that long and windy day." for i in range(200)]
    made = await LlmProfiler(model, Prompts()).summarise("Hub Corp", facts, limit=60)
    assert tokenizer.count(made.text) <= 60
    assert made.usage.llm_calls == server.calls("summary") > 2
    for body in server.bodies("summary"):
        said = "".join(message["content"] for message in body["messages"])
        assert tokenizer.count(said) <= 2048
    said = "".join(b["messages"][-1]["content"] for b in server.bodies("summary"))
    assert all(fact in said for fact in facts)


async def test_one_huge_description_is_cut_to_what_a_call_can_hold(
    server: ModelServer, chat: Chats, tokenizer: TiktokenTokenizer
) -> None:
    await LlmProfiler(chat(context_tokens=2048), Prompts()).summarise("X", ["w " * 9000], limit=60)
    [body] = server.bodies("summary")
    assert tokenizer.count(body["messages"][-1]["content"]) < 1536


async def test_an_empty_summary_is_bad_output(server: ModelServer, chat: Chats) -> None:
    server.script(llm={"summary": ["<think>all of it"]})
    with pytest.raises(BadModelOutput):
        await LlmProfiler(chat(), Prompts()).summarise("Ada", ["One."], limit=50)


async def test_a_refusal_is_no_summary(server: ModelServer, chat: Chats) -> None:
    server.script(llm={"summary": ["I'm sorry, but I can't help with that."]})
    with pytest.raises(BadModelOutput) as raised:
        await LlmProfiler(chat(), Prompts()).summarise("Ada", ["One."], limit=50)
    assert raised.value.code == "model_refused"


async def test_descriptions_that_the_server_finds_too_long_are_summarised_in_halves(
    server: ModelServer, chat: Chats
) -> None:
    overflow = {"status": 400, "body": "maximum context length exceeded"}
    server.script(llm={"summary": [overflow]})
    facts = [f"Fact {i}." for i in range(8)]
    made = await LlmProfiler(chat(), Prompts()).summarise("Hub", facts, limit=50)
    assert made.text
    assert made.usage.llm_calls == 3
    said = [body["messages"][-1]["content"] for body in server.bodies("summary")]
    assert len(said) == 4
    assert all(f"- {fact}" in said[1] + said[2] for fact in facts)
    server.script(reject=[{"contains": "", **overflow}])
    with pytest.raises(Invalid):
        await LlmProfiler(chat(), Prompts()).summarise("Hub", facts, limit=50)
    assert server.calls("summary") < 20


async def test_one_part_that_fails_ends_the_others(server: ModelServer, chat: Chats) -> None:
    facts = [f"Hub Corp did thing number {i} on that long and windy day." for i in range(200)]
    server.script(llm={"summary": [{"status": 400, "body": "no"}]}, latency_s=0.2)
    with pytest.raises(Unavailable):
        await LlmProfiler(chat(context_tokens=2048), Prompts()).summarise("Hub", facts, limit=60)
    asked = len(server.bodies("summary"))
    await asyncio.sleep(0.5)
    assert len(server.bodies("summary")) == asked


# --- keyworder -----------------------------------------------------------------------------------


async def test_keywords_come_with_their_usage(server: ModelServer, chat: Chats) -> None:
    server.script(
        llm={"keywords": ['{"high_level_keywords": ["work"], "low_level_keywords": ["Ada"]}']}
    )
    found = await LlmKeyworder(chat(), Prompts()).keywords(Question("What did Ada do?"))
    assert (found.low, found.high) == (("Ada",), ("work",))
    assert found.usage.llm_calls == 1


async def test_a_program_instead_of_keywords_gives_none_but_is_paid_for(
    server: ModelServer, chat: Chats
) -> None:
    server.script(llm={"keywords": ["```python\nprint({'high': []})\n```"]})
    found = await LlmKeyworder(chat(), Prompts()).keywords(Question("Who?"))
    assert not found.low
    assert not found.high
    assert found.usage.llm_calls == 1


async def test_the_conversation_tells_what_a_question_refers_to(
    server: ModelServer, chat: Chats
) -> None:
    history = tuple(Turn("user", f"turn {i}") for i in range(9))
    await LlmKeyworder(chat(), Prompts()).keywords(Question("And she?", history=history))
    [body] = server.bodies("keywords")
    said = body["messages"][-1]["content"]
    assert "turn 8" in said
    assert "turn 0" not in said
    assert said.endswith("Query: And she?")


@pytest.fixture
async def replies(valkey_url: str) -> AsyncIterator[RedisReplies]:
    async with Redis.from_url(valkey_url) as redis:
        await redis.flushdb()
        yield RedisReplies(redis)


async def test_the_same_question_is_asked_once_per_workspace(
    server: ModelServer, chat: Chats, replies: RedisReplies
) -> None:
    keyworder = CachedKeyworder(LlmKeyworder(chat(), Prompts()), replies)
    question = Question("What did Ada do?", workspace="one")
    first = await keyworder.keywords(question)
    second = await keyworder.keywords(replace(question, top_k=3))
    assert (second.low, second.high) == (first.low, first.high)
    assert second.usage == Usage()
    assert server.calls("keywords") == 1
    await keyworder.keywords(replace(question, history=(Turn("user", "Hi"),)))
    await keyworder.keywords(replace(question, workspace="other"))
    assert server.calls("keywords") == 3


async def test_an_unusable_keyword_reply_is_not_remembered(
    server: ModelServer, chat: Chats, replies: RedisReplies
) -> None:
    server.script(llm={"keywords": ["no idea"]})
    keyworder = CachedKeyworder(LlmKeyworder(chat(), Prompts()), replies)
    assert not (await keyworder.keywords(Question("What did Ada do?"))).low
    assert (await keyworder.keywords(Question("What did Ada do?"))).low == ("Ada",)


# --- answerer ------------------------------------------------------------------------------------


async def test_an_answer_is_streamed_and_cites_its_source(chat: Chats) -> None:
    context = Context(sources=(_source(1, "Ada wrote notes. More."), _source(2, "Other.")))
    answerer = LlmAnswerer(chat(), Prompts())
    pieces = [piece async for piece in answerer.answer(Question("What did Ada write?"), context)]
    assert isinstance(pieces[-1], Usage)
    assert len(pieces) > 3
    assert "".join(map(str, pieces[:-1])) == "The documents say: Ada wrote notes. [1]"


async def test_the_model_sees_sources_graph_dates_form_and_history(
    server: ModelServer, chat: Chats
) -> None:
    entity = ScoredEntity(Entity("ada", "Ada", "person", "", 1), "She wrote\nnotes.", 1.0)
    relation = ScoredRelation(
        Relation("a\tb", "ada", "bab", "Ada", "Babbage", "", ("work",), 1.0, 1), "They met.", 1.0
    )
    context = Context((entity,), (relation,), (_source(1, "Notes of Ada.", "1843-09-01"),))
    question = Question(
        "When?", history=(Turn("user", "Hi"), Turn("assistant", "Ho")), language="Deutsch",
        response_type="bullet points",
    )  # fmt: skip
    async for _ in LlmAnswerer(chat(), Prompts()).answer(question, context):
        pass
    [body] = server.bodies("answer")
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "user"]
    said = body["messages"][-1]["content"]
    for part in (
        "- Ada (person): She wrote notes.", "- Ada -- Babbage (work): They met.",
        "### Source [1]", "Date: 1843-09-01", "Page: 3", "Section: Part One", "Notes of Ada.",
        "Answer in Deutsch.", "bullet points", "Question: When?",
    ):  # fmt: skip
        assert part in said


async def test_a_context_beyond_the_models_window_loses_its_last_sources(
    server: ModelServer, chat: Chats, tokenizer: TiktokenTokenizer
) -> None:
    context = Context(sources=tuple(_source(i, f"fact{i} " * 300) for i in range(1, 9)))
    history = tuple(Turn("user", "word " * 400) for _ in range(9))
    model = chat(context_tokens=4096)
    async for _ in LlmAnswerer(model, Prompts()).answer(Question("Q", history=history), context):
        pass
    [body] = server.bodies("answer")
    said = "".join(message["content"] for message in body["messages"])
    assert tokenizer.count(said) <= model.prompt_room
    assert "### Source [1]" in said
    assert "### Source [8]" not in said


async def test_complete_returns_prose_without_thoughts(server: ModelServer, chat: Chats) -> None:
    server.script(llm={"other": ["<think>hm</think>Yes."]})
    completion = await LlmAnswerer(chat(), Prompts()).complete(Prompt("", "Is it?"))
    assert completion.text == "Yes."
    assert completion.usage.llm_calls == 1
