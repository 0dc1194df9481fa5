"""A scripted model server and clients of it whose waiting is recorded instead of done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from app.llm.chat import ChatModel
from app.llm.gate import Gate
from app.llm.http import Endpoint, ModelClient, Request, open_http
from app.llm.limits import Limits, LocalBook, Rates
from app.llm.tokens import TiktokenTokenizer
from tests.model_server import ModelServer, running

Clients = Callable[..., ModelClient]
HARMLESS = {"model": "scripted", "messages": [{"role": "user", "content": "Say OK."}]}


class Clock:
    """Time that passes by sleeping only."""

    now = 1000.0

    def __init__(self) -> None:
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with running() as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with open_http() as http:
        yield http


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def waits(clock: Clock) -> list[float]:
    """Seconds that clients would have slept."""
    return clock.waits


@pytest.fixture(scope="session")
def tokenizer() -> TiktokenTokenizer:
    return TiktokenTokenizer()


@pytest.fixture
def client(server: ModelServer, http: httpx.AsyncClient, clock: Clock) -> Clients:
    def make(
        dialect: str = "openai", *, concurrency: int = 8, rates: Rates | None = None,
        **settings: object,
    ) -> ModelClient:  # fmt: skip
        path = "/v1" if dialect == "openai" else ""
        limits = Limits(concurrency, rates or Rates())
        url = f"{dialect}+http://{server.host}{path}"
        endpoint = Endpoint(url, limits=limits, **settings)  # type: ignore[arg-type]
        gate = Gate(LocalBook(limits, clock), endpoint.host, sleep=clock.sleep)
        return ModelClient(http, endpoint, gate=gate, sleep=clock.sleep)

    return make


@pytest.fixture
def chat(client: Clients, tokenizer: TiktokenTokenizer) -> Callable[..., ChatModel]:
    def make(dialect: str = "openai", **settings: object) -> ChatModel:
        return ChatModel(client(dialect), "scripted", tokenizer, **settings)  # type: ignore[arg-type]

    return make


def ask(content: str = "Hello", *, urgent: bool = False, harmless: bool = True) -> Request:
    """A chat call of the kind "other" that needs no model of ours."""
    body = {"model": "scripted", "messages": [{"role": "user", "content": content}]}
    return Request(
        "/chat/completions", body, about="scripted", urgent=urgent,
        harmless=HARMLESS if harmless else None,
    )  # fmt: skip


def said(reply: object) -> tuple[str, int | None]:
    """The text of a chat reply."""
    assert isinstance(reply, dict)
    return str(reply["choices"][0]["message"]["content"]), None
