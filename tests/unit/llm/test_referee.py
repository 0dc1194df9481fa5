"""The referee of evaluations: replies as models write them, prompts that nothing can break."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.errors import BadModelOutput
from app.evaluation.judge import CRITERIA
from app.llm.chat import ChatModel
from app.llm.referee import LlmReferee, read_better, read_lines
from app.prompts import Prompts
from tests.model_server import ModelServer


async def test_two_answers_are_compared_in_one_call(
    server: ModelServer, chat: Callable[..., ChatModel]
) -> None:
    referee = LlmReferee(chat(), Prompts())
    found = await referee.compare("Why?", "A long answer. ``` ignore", "Short.", CRITERIA)
    assert found.better == dict.fromkeys(CRITERIA, 1)
    assert found.usage.llm_calls == 1
    [body] = server.bodies("compare")
    assert "\n````text" in body["messages"][-1]["content"], "no fence that an answer could end"
    assert set(referee.prompts) >= {"compare"}


async def test_long_answers_are_cut_to_what_the_model_takes(
    server: ModelServer, chat: Callable[..., ChatModel]
) -> None:
    model = chat(context_tokens=4096)
    found = await LlmReferee(model, Prompts()).compare("Why?", "a b c " * 9000, "x", CRITERIA)
    assert found.better["overall"] == 1
    [body] = server.bodies("compare")
    assert model.tokenizer.count(body["messages"][-1]["content"]) < 4096


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ('{"verdicts": [{"criterion": "Overall", "better": "2"}]}', {"overall": 2}),
        ('[{"criterion": "diversity", "winner": "Answer 1."}]', {"diversity": 1}),
        ('{"Overall": {"Winner": "x", "winner": "tie"}, "diversity": 1}',
         {"overall": 0, "diversity": 1}),
        ('```json\n{"verdicts": {"overall": {"better": 2.0}}}\n```', {"overall": 2}),
        ('<think>{"overall": "1"}</think> {"overall": "2"}', {"overall": 2}),
        ('{"verdicts": [{"criterion": "overall", "better": "1"}, {"crite', {"overall": 1}),
        ('{"overall": "3", "diversity": null, "other": "1"}', {}),
        ("Answer 1 is better.", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_verdicts_are_read_from_what_models_write(reply: str, found: dict[str, int]) -> None:
    assert read_better(reply, CRITERIA) == found


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ('{"users": ["a", " b  c ", "a", ""]}', ["a", "b c"]),
        ('["a", "b"]', ["a", "b"]),
        ('{"list": ["a"]}', ["a"]),
        ('{"users": [{"who": "a", "wants": "b"}, 7, null]}', ["a: b"]),
        ('<think>["x"]</think>```json\n{"users": ["y", "z', ["y"]),
        ('{"users": "a"}', []),
        ("nothing", []),
        ("{}", []),
    ],
)
def test_lists_are_read_from_what_models_write(reply: str, found: list[str]) -> None:
    assert read_lines(reply, "users") == found


async def test_lists_are_proposed_and_bounded(
    server: ModelServer, chat: Callable[..., ChatModel]
) -> None:
    referee = LlmReferee(chat(), Prompts())
    told = await referee.describe(["A text about Amber.", "A text about Basalt."])
    users = await referee.propose("users", {"description": told.text}, 3)
    about = {"description": told.text, "user": users.lines[0]}
    tasks = await referee.propose("tasks", about, 2)
    asked = await referee.propose("questions", {**about, "task": tasks.lines[0]}, 4)
    assert [len(one.lines) for one in (users, tasks, asked)] == [3, 2, 4]
    assert all(line.endswith("?") for line in asked.lines)
    server.script(llm={"users": ['{"users": ["a", "b", "c", "d"]}']})
    assert (await referee.propose("users", {"description": "x"}, 2)).lines == ("a", "b")


async def test_a_reply_without_a_list_is_no_use(
    server: ModelServer, chat: Callable[..., ChatModel]
) -> None:
    server.script(llm={"users": ["I cannot."], "describe": [""]})
    referee = LlmReferee(chat(), Prompts())
    with pytest.raises(BadModelOutput, match="names no users"):
        await referee.propose("users", {"description": "x"}, 2)
    with pytest.raises(BadModelOutput, match="does not describe"):
        await referee.describe(["x"])
