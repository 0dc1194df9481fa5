"""Whole and streamed replies in both dialects, and finding out what a server supports."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.domain import Prompt, Turn, Usage
from app.errors import AppError, BadModelOutput, Invalid, Unavailable
from app.llm.chat import ChatModel, Price
from app.llm.extraction import SCHEMA
from tests.model_server import ModelServer

Chats = Callable[..., ChatModel]
PROMPT = Prompt("# Answer", "Hello", history=(Turn("user", "Hi"), Turn("assistant", "Ho")))
DIALECTS = pytest.mark.parametrize("dialect", ["openai", "ollama"])


async def _streamed(model: ChatModel, prompt: Prompt = PROMPT) -> tuple[str, Usage]:
    pieces = [piece async for piece in model.stream(prompt)]
    usage = pieces.pop()
    assert isinstance(usage, Usage)
    return "".join(map(str, pieces)), usage


@DIALECTS
async def test_a_reply_has_text_usage_and_cost(
    server: ModelServer, chat: Chats, dialect: str
) -> None:
    server.script(llm={"answer": ["Quite so.", "Quite so."]})
    model = chat(dialect, price=Price(prompt=1000, completion=2000))
    whole = await model.complete(PROMPT)
    text, usage = await _streamed(model)
    assert whole.text == text == "Quite so."
    assert whole.usage == usage
    assert usage.llm_calls == 1
    assert usage.cost == pytest.approx(
        usage.prompt_tokens / 1000 + usage.completion_tokens * 2 / 1000
    )
    [first, _] = server.bodies("answer")
    assert [m["role"] for m in first["messages"]] == ["system", "user", "assistant", "user"]


async def test_ollama_is_told_how_much_context_the_prompt_needs(
    server: ModelServer, chat: Chats
) -> None:
    await chat("ollama", context_tokens=12_345).complete(PROMPT)
    [body] = server.bodies("answer")
    assert body["options"]["num_ctx"] == 12_345


async def test_usage_is_counted_here_where_the_server_does_not_say(
    server: ModelServer, chat: Chats
) -> None:
    server.script(llm={"answer": [{"raw": '{"choices": [{"message": {"content": "Quite so."}}]}'}]})
    completion = await chat().complete(PROMPT)
    assert completion.usage.prompt_tokens > 0
    assert completion.usage.completion_tokens == 3


# --- structured output ---------------------------------------------------------------------------


async def test_the_strictest_form_that_the_server_takes_is_found_once(
    server: ModelServer, chat: Chats
) -> None:
    server.script(refuse=["json_schema"])
    model = chat()
    for _ in range(2):
        await model.complete(PROMPT, SCHEMA)
    forms = [body.get("response_format", {}).get("type") for body in server.bodies("answer")]
    assert forms == ["json_schema", "json_object", "json_object"]


async def test_a_server_without_structured_output_is_asked_in_words(
    server: ModelServer, chat: Chats
) -> None:
    server.script(refuse=["response_format"])
    await chat().complete(PROMPT, SCHEMA)
    assert "response_format" not in server.bodies("answer")[-1]


async def test_a_set_form_is_never_changed(server: ModelServer, chat: Chats) -> None:
    await chat(form="json").complete(PROMPT, SCHEMA)
    assert server.bodies("answer")[0]["response_format"] == {"type": "json_object"}
    server.script(refuse=["response_format"])
    with pytest.raises(Unavailable):
        await chat(form="json").complete(PROMPT, SCHEMA)


async def test_a_refusal_of_the_request_itself_does_not_weaken_the_form(
    server: ModelServer, chat: Chats
) -> None:
    model = chat()
    server.script(llm={"answer": [{"status": 400, "body": "no"}] * 3})
    with pytest.raises(Unavailable):
        await model.complete(PROMPT, SCHEMA)
    await model.complete(PROMPT, SCHEMA)
    assert server.bodies("answer")[-1]["response_format"]["type"] == "json_schema"
    server.script(llm={"answer": [{"status": 400, "body": "no"}]})
    with pytest.raises(Unavailable):
        await model.complete(PROMPT, SCHEMA)


@pytest.mark.parametrize("name", ["temperature", "stream_options"])
async def test_a_parameter_that_the_server_does_not_know_is_left_out(
    server: ModelServer, chat: Chats, name: str
) -> None:
    server.script(refuse=[name])
    model = chat()
    await _streamed(model)
    await _streamed(model)
    assert [name in body for body in server.bodies("answer")] == [True, False, False]


async def test_the_reply_limit_is_sent_under_its_newer_name_where_the_old_is_refused(
    server: ModelServer, chat: Chats
) -> None:
    server.script(refuse=["max_tokens"])
    await chat().complete(Prompt("# Answer", "Hello", max_tokens=50))
    assert server.bodies("answer")[-1]["max_completion_tokens"] == 50


async def test_ollama_gets_the_schema_as_format(server: ModelServer, chat: Chats) -> None:
    await chat("ollama").complete(PROMPT, SCHEMA)
    assert server.bodies("answer")[0]["format"] == SCHEMA


# --- ends that are none --------------------------------------------------------------------------


async def test_a_stream_that_breaks_off_is_an_error_and_no_answer(
    server: ModelServer, chat: Chats
) -> None:
    line = 'data: {"choices":[{"delta":{"content":"Ada wor"}}]}'
    server.script(llm={"answer": [{"stream": [line], "cut": True}]})
    pieces = []
    with pytest.raises(Unavailable):
        async for piece in chat().stream(PROMPT):
            pieces.append(piece)
    assert pieces == ["Ada wor"]
    assert server.calls("answer") == 1


async def test_a_stream_that_ends_without_an_end_mark_is_an_error(
    server: ModelServer, chat: Chats
) -> None:
    line = 'data: {"choices":[{"delta":{"content":"Ada wor"}}]}'
    server.script(llm={"answer": [{"stream": [line]}]})
    with pytest.raises(Unavailable) as raised:
        await _streamed(chat())
    assert raised.value.code == "stream_cut"


async def test_a_stream_that_breaks_before_its_first_word_is_tried_again(
    server: ModelServer, chat: Chats
) -> None:
    server.script(llm={"answer": [{"stream": [": hello"], "cut": True}, {"status": 503}, "Fine."]})
    text, _ = await _streamed(chat())
    assert text == "Fine."


async def test_an_error_inside_a_stream_is_an_error(server: ModelServer, chat: Chats) -> None:
    lines = [
        'data: {"choices":[{"delta":{"content":"Ada"}}]}',
        'data: {"error": {"message": "overloaded"}}',
    ]
    server.script(llm={"answer": [{"stream": lines}]})
    with pytest.raises(Unavailable):
        await _streamed(chat())


async def test_line_separators_within_a_streamed_reply_are_text(
    server: ModelServer, chat: Chats
) -> None:
    line = 'data: {"choices":[{"delta":{"content":"a\u2028b\x85c"},"finish_reason":"stop"}]}'
    server.script(llm={"answer": [{"stream": [line]}]})
    text, _ = await _streamed(chat())
    assert text == "a\u2028b\x85c"


async def test_halves_of_a_character_in_different_pieces_are_joined(
    server: ModelServer, chat: Chats
) -> None:
    pieces = [r"\ud83d", r"\ude00 a\ud83d", r"b \udc00", r"c\ud83d"]
    lines = [f'data: {{"choices":[{{"delta":{{"content":"{piece}"}}}}]}}' for piece in pieces]
    server.script(llm={"answer": [{"stream": [*lines, "data: [DONE]"]}]})
    text, _ = await _streamed(chat())
    assert text == "😀 a\ufffdb \ufffdc\ufffd"


async def test_half_a_character_in_a_whole_reply_is_replaced(
    server: ModelServer, chat: Chats
) -> None:
    message = r'{"content": "cut \ud83d\ude00 off \ud83d"}'
    raw = f'{{"choices": [{{"finish_reason": "length", "message": {message}}}]}}'
    server.script(llm={"answer": [{"raw": raw, "content_type": "application/json"}]})
    assert (await chat().complete(PROMPT)).text == "cut 😀 off \ufffd"


@DIALECTS
async def test_a_length_limit_is_reported(server: ModelServer, chat: Chats, dialect: str) -> None:
    server.script(llm={"answer": [{"content": "Half a", "finish_reason": "length"}]})
    assert (await chat(dialect).complete(PROMPT)).finish_reason == "length"


async def test_a_reply_that_a_filter_withheld_is_bad_output_for_good(
    server: ModelServer, chat: Chats
) -> None:
    answer = {"content": "", "finish_reason": "content_filter"}
    server.script(llm={"answer": [answer, answer]})
    for call in (chat().complete(PROMPT), _streamed(chat())):
        with pytest.raises(BadModelOutput) as raised:
            await call
        assert raised.value.code == "content_filter"
        assert not raised.value.transient


@pytest.mark.parametrize(
    "raw",
    [
        "{}", "[]", "null", '{"choices": []}', '{"choices": [{"message": null}]}',
        '{"choices": [{"message": {"content": 7}}]}', '{"choices": "no"}', "<html>",
    ],
)  # fmt: skip
async def test_a_body_that_is_no_completion_is_bad_output(
    server: ModelServer, chat: Chats, raw: str
) -> None:
    server.script(llm={"answer": [{"raw": raw}] * 4})
    with pytest.raises(BadModelOutput):
        await chat().complete(PROMPT)


async def test_an_error_with_status_200_is_an_error(server: ModelServer, chat: Chats) -> None:
    server.script(llm={"answer": [{"raw": '{"error": {"message": "no"}}'}] * 4})
    with pytest.raises(AppError):
        await chat().complete(PROMPT)


async def test_a_context_overflow_is_the_callers_to_solve(server: ModelServer, chat: Chats) -> None:
    body = "maximum context length is 4096 tokens; temperature and all"
    server.script(llm={"answer": [{"status": 400, "body": body}]})
    with pytest.raises(Invalid) as raised:
        await chat().complete(PROMPT)
    assert raised.value.code == "context_overflow"
    assert server.calls("answer") == 1


@DIALECTS
async def test_reasoning_at_the_start_is_not_streamed_but_quoted_tags_are(
    server: ModelServer, chat: Chats, dialect: str
) -> None:
    said = "<think>inner</think>They print <think>secret plan</think> first [1]."
    server.script(llm={"answer": [said]})
    text, _ = await _streamed(chat(dialect))
    assert text == "They print <think>secret plan</think> first [1]."
