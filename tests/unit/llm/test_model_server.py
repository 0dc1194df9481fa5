"""The scripted model server itself, as other processes see it; and our prompts as the fake model of
the benchmarks sees them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from app.domain import Chunk, Context, Options, Prompt, Question, Source
from app.llm.chat import ChatModel
from app.llm.extraction import LlmExtractor
from app.llm.roles import LlmAnswerer, LlmKeyworder, LlmProfiler
from app.prompts import Prompts
from tests.model_server import ModelServer

Chats = Callable[..., ChatModel]


async def test_it_is_scripted_watched_and_reset_over_http(
    server: ModelServer, http: httpx.AsyncClient
) -> None:
    base = f"http://{server.host}"
    script = {
        "llm": {
            "other": [{"python": "'x' * 3", "finish_reason": "length"}, {"json": {"a": 1}}],
            "extract_match": {"contains": "Person3 ", "always": [{"status": 500, "body": "boom"}]},
        }
    }
    assert (await http.post(f"{base}/script", json=script)).status_code == 200

    async def ask(system: str, user: str) -> httpx.Response:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return await http.post(f"{base}/v1/chat/completions", json={"messages": messages})

    [choice] = (await ask("", "Hello")).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("xxx", "length")
    [choice] = (await ask("", "Hello")).json()["choices"]
    assert choice["message"]["content"] == '{"a": 1}'
    assert (await ask("# Extract", "Person2 came.")).status_code == 200
    assert (await ask("# Extract", "Person3 came.")).text == "boom"
    assert (await ask("# Extract", "Person3 came.")).status_code == 200
    stats = (await http.get(f"{base}/stats")).json()
    assert {kind: row["calls"] for kind, row in stats["kinds"].items()} == {
        "other": 2,
        "extract": 3,
    }
    assert stats["max_parallel"] == 1
    assert len(stats["requests"]) == 5
    await http.post(f"{base}/reset")
    assert (await http.get(f"{base}/stats")).json()["kinds"] == {}


async def test_a_script_serves_one_kind_in_order(server: ModelServer, chat: Chats) -> None:
    server.script(llm={"answer": ["one", "two"], "summary": ["three"]})
    texts = [(await chat().complete(Prompt("# Answer", "Q"))).text for _ in range(3)]
    assert texts[:2] == ["one", "two"]
    assert texts[2] not in ("one", "two", "three")


@pytest.fixture(scope="module")
def fake(shared_dir: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("fake_llm", shared_dir / "bench" / "fake_llm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.shared
async def test_the_fake_model_of_the_benchmarks_knows_our_prompts(
    server: ModelServer, chat: Chats, fake: ModuleType
) -> None:
    text = "Ada Lovelace wrote a summary. Charles Babbage missed it and extracted nothing."
    prompts = Prompts()
    chunk = Chunk("c", "d", 0, 0, len(text), text, 10)
    await LlmExtractor(chat(), prompts, Options(gleanings=1)).extract("Summary", ["Notes"], text)
    await LlmProfiler(chat(), prompts).summarise("Ada Lovelace", [text, "More."], limit=60)
    await LlmKeyworder(chat(), prompts).keywords(Question("What did Ada Lovelace write?"))
    context = Context(sources=(Source(1, chunk, "Summary", "", 1.0),))
    async for _ in LlmAnswerer(chat(), prompts).answer(Question("Who missed it?"), context):
        pass
    seen = {row["kind"]: fake.classify(row["body"], {}) for row in server.state.requests}
    assert {kind: seen[kind][0] for kind in seen} == {
        "extract": "extract", "glean": "glean", "summary": "summary", "keywords": "keywords",
        "answer": "other",
    }  # fmt: skip
    assert seen["extract"][1] == fake.as_json(text)
    assert seen["summary"][1].startswith("Ada Lovelace:")
    assert "Ada Lovelace" in seen["keywords"][1]
