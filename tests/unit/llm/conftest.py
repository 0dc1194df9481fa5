"""A scripted model server and clients of it whose waiting is recorded instead of done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from app.llm.chat import ChatModel
from app.llm.http import Endpoint, ModelClient, open_http
from app.llm.tokens import TiktokenTokenizer
from tests.model_server import ModelServer, running

Clients = Callable[..., ModelClient]


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with running() as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with open_http() as http:
        yield http


@pytest.fixture
def waits() -> list[float]:
    """Seconds that clients would have slept."""
    return []


@pytest.fixture(scope="session")
def tokenizer() -> TiktokenTokenizer:
    return TiktokenTokenizer()


@pytest.fixture
def client(server: ModelServer, http: httpx.AsyncClient, waits: list[float]) -> Clients:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    def make(dialect: str = "openai", **settings: object) -> ModelClient:
        path = "/v1" if dialect == "openai" else ""
        endpoint = Endpoint(f"{dialect}+http://{server.host}{path}", **settings)  # type: ignore[arg-type]
        return ModelClient(http, endpoint, sleep=sleep)

    return make


@pytest.fixture
def chat(client: Clients, tokenizer: TiktokenTokenizer) -> Callable[..., ChatModel]:
    def make(dialect: str = "openai", **settings: object) -> ChatModel:
        return ChatModel(client(dialect), "scripted", tokenizer, **settings)  # type: ignore[arg-type]

    return make
