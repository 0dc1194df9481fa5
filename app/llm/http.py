"""One endpoint of a model server: requests with retries, back-off, limits, and errors of ours.

All endpoints of a process share one `httpx.AsyncClient`; what belongs to one endpoint (slots,
rates, pauses) is behind its gate. Keys are never logged, and what a server says only at DEBUG.

Who is at fault when a call fails again and again, the endpoint or the text? The endpoint, if a
harmless call fails as well: then it is paused for all, and the error is `blameless`. Where other
calls succeed meanwhile, or the harmless one does, it is the text.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import ModuleType
from typing import TypeVar, cast
from urllib.parse import urlsplit

import httpx
import orjson

from app.errors import AppError, BadModelOutput, Misconfigured
from app.llm.faults import Outcome, check, outcome_of, retried, translated
from app.llm.gate import Gate
from app.llm.limits import USUAL_LIMITS, Call, End, Limits, LocalBook, Report

log = logging.getLogger("heliograph.llm")

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
PROBE_TOKENS = 64
PROBE_SECONDS = (45.0, 10.0)  # that a harmless call may take: of work, and where somebody waits

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`url`: openai+http(s)://host[:port]/v1 or ollama+http(s)://host:port. Times in seconds."""

    url: str
    key: str = ""
    limits: Limits = USUAL_LIMITS
    timeout: float = 180.0  # of one attempt
    connect_timeout: float = 10.0
    attempts: int = 4

    @property
    def dialect(self) -> str:
        return self.url.partition("+")[0]

    @property
    def address(self) -> str:
        scheme, separator, rest = self.url.partition("+")
        address = rest if separator and scheme in ("openai", "ollama") else self.url
        try:
            parts = urlsplit(address)
            known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # brackets of IPv6 that do not close, a port that is no number
            known = False
        if not known:
            raise Misconfigured(f"{scheme}: not a model URL; write openai+https://host/v1")
        return address.rstrip("/")

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc.rpartition("@")[2]

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"  # the key stays out of logs and traces


@dataclass(frozen=True, slots=True)
class Request:
    """A body for a path. `tokens`: an estimate on the safe side. `about`: the model, which is
    paused by itself. `urgent`: somebody waits. `harmless`: a tiny body that works if anything does,
    and `judge` raises for an answer to it that is none."""

    path: str
    body: Mapping[str, object]
    tokens: int = 0
    about: str = ""
    urgent: bool = False
    harmless: Mapping[str, object] | None = None
    judge: Callable[[object], object] = id


@asynccontextmanager
async def open_http() -> AsyncIterator[httpx.AsyncClient]:
    """The client that all endpoints of a process share."""
    # httpcore imports it with every lock that it makes; one that is not installed is looked for in
    # all folders each time, 34 times a document.
    if find_spec("sniffio") is None:
        sys.modules["sniffio"] = cast(ModuleType, None)  # "not there", in Python's own words
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30)
    async with httpx.AsyncClient(limits=limits, follow_redirects=False) as http:
        yield http


class ModelClient:
    """Calls one endpoint. Everyone who uses the endpoint shares the client."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        endpoint: Endpoint,
        *,
        gate: Gate | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.endpoint = endpoint
        self._http, self.sleep = http, sleep
        self._address = endpoint.address
        self.gate = gate or Gate(LocalBook(endpoint.limits), endpoint.host, sleep=sleep)
        self._headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}

    async def ping(self) -> str:
        """For /readyz: the endpoint answers and takes our key."""
        path = "/api/version" if self.endpoint.dialect == "ollama" else "/models"
        with translated(self.endpoint.host, self.endpoint.connect_timeout):
            response = await self._http.get(
                self._address + path, headers=self._headers, timeout=self.endpoint.connect_timeout
            )
            check(response.status_code, response.content, response.headers)
        found = _decoded(response.content)
        version = found.get("version") if isinstance(found, dict) else None
        return version if isinstance(version, str) else self.endpoint.dialect

    async def post(
        self,
        request: Request,
        read: Callable[[object], tuple[T, int | None]],
        *,
        attempts: int | None = None,
    ) -> T:
        """What `read` makes of the JSON that the endpoint answers; it also tells the tokens used,
        if it knows, and what it raises counts as an answer that failed."""
        tries = self.tries(request, attempts)
        while True:
            try:
                async with tries.turn() as turn:
                    value, turn.used = read(await self._post(request, self.endpoint.timeout))
                    return value
            except AppError as error:
                if not await tries.again(error):
                    raise

    def tries(self, request: Request, attempts: int | None = None) -> Tries:
        return Tries(self, request, attempts or self.endpoint.attempts)

    async def lines(self, request: Request) -> AsyncGenerator[str, None]:
        """The lines of a streamed answer as they come; to be used within a turn. The connection may
        end early without an error: whether the answer was whole is for the dialect to say."""
        with translated(self.endpoint.host, self.endpoint.timeout):
            async with self._http.stream(
                "POST",
                self._address + request.path,
                content=_encoded(request.body),
                headers={**self._headers, "Content-Type": "application/json"},
                timeout=self._timeout(self.endpoint.timeout),
            ) as response:
                if response.status_code != 200:
                    check(response.status_code, await response.aread(), response.headers)
                async for line in _lines(response.aiter_bytes()):
                    yield line

    async def probe(self, request: Request) -> None:
        """Send a harmless call; what the book learns by it holds for all. Raises where it fails."""
        assert request.harmless is not None
        call = Call(PROBE_TOKENS, request.about, urgent=True, probes=True, probe=True)
        limit = min(self.endpoint.timeout, PROBE_SECONDS[request.urgent])
        outcome: Outcome = "unknown"
        await self.gate.enter(call)
        pause = 0.0
        try:
            request.judge(await self._post(replace(request, body=request.harmless), limit))
            outcome = "ok"
        except AppError as error:
            outcome, pause = outcome_of(error), error.retry_after or 0.0
        finally:
            report = await self.gate.leave(call, End(outcome, pause=pause))
        if outcome not in ("busy", "failed"):
            log.info("model.probed model=%s outcome=%s", request.about, outcome)
        else:
            log.warning("model.paused model=%s seconds=%.0f", request.about, report.paused)
            raise self.gate.paused(report.paused)

    async def _post(self, request: Request, limit: float) -> object:
        began = time.monotonic()
        with translated(self.endpoint.host, limit):
            async with asyncio.timeout(limit):
                response = await self._http.post(
                    self._address + request.path,
                    content=_encoded(request.body),
                    headers={**self._headers, "Content-Type": "application/json"},
                    timeout=self._timeout(limit),
                )
            check(response.status_code, response.content, response.headers)
        log.debug("model.answered path=%s seconds=%.2f", request.path, time.monotonic() - began)
        return _decoded(response.content)

    def _timeout(self, limit: float) -> httpx.Timeout:
        return httpx.Timeout(limit, connect=min(limit, self.endpoint.connect_timeout), pool=None)


@dataclass(slots=True)
class Used:
    """What a turn used up: tokens, if known."""

    used: int | None = None


class Tries:
    """One request, tried several times: `turn` is one attempt, `again` says whether to make
    another."""

    def __init__(self, client: ModelClient, request: Request, attempts: int) -> None:
        self._client, self._request, self._attempts = client, request, attempts
        self._made = 0
        self._since = 0.0  # of the first attempt, in the book's time
        self._report = Report()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Used]:
        call = await self._enter()
        self._made += 1
        outcome: Outcome = "unknown"
        turn, pause = Used(), 0.0
        try:
            yield turn
            outcome = "ok"
        except AppError as error:
            outcome, pause = outcome_of(error), error.retry_after or 0.0
            raise
        finally:
            last = self._made >= self._attempts
            end = End(outcome, turn.used, self._since, last, pause)
            self._report = await self._client.gate.leave(call, end)

    async def _enter(self) -> Call:
        request, gate = self._request, self._client.gate
        while True:
            call = Call(request.tokens, request.about, request.urgent, request.harmless is not None)
            turn = await gate.enter(call)
            if not turn.probe:
                self._since = self._since or turn.at
                return call
            await self._client.probe(request)

    async def again(self, error: AppError) -> bool:
        """Waits before it says yes. After a no the error is to be raised; one that says that the
        endpoint is at fault is raised here."""
        if error.blameless or not retried(error):
            return False
        outcome, report = outcome_of(error), self._report
        if report.probe:
            await self._client.probe(self._request)
        last = self._made >= self._attempts
        if last or (self._request.urgent and error.code == "model_timeout"):
            error.blameless = outcome == "busy"
            suspect = self._request.harmless and not self._request.urgent and not report.others_work
            if outcome == "failed" and suspect and not report.probe:  # somebody else finds out
                raise self._client.gate.paused(report.paused) from error
            return False
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (self._made - 1)) * random.uniform(0.5, 1.0)
        log.info("model.retry code=%s attempt=%d delay=%.1f", error.code, self._made, delay)
        if outcome != "busy":  # else the next turn waits as long as all others do
            await self._client.sleep(delay)
        return True


def _encoded(body: Mapping[str, object]) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:  # what only the lenient one takes
        pass
    # Lone surrogates have no UTF-8 form, and no model needs them.
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def _decoded(body: bytes) -> object:
    with suppress(ValueError):  # of 25 embeddings in 2 ms instead of 7
        return orjson.loads(body)
    try:  # it may still hold what is no JSON, as NaN, or half a surrogate pair
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadModelOutput("the model server's answer is not JSON", code="no_completion") from (
            error
        )


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Lines end at line feeds only: JSON may hold the other ones that str.splitlines knows."""
    held = bytearray()
    async for piece in pieces:
        held += piece
        if b"\n" not in piece:
            continue
        *whole, rest = held.split(b"\n")
        held = rest
        for line in whole:
            yield line.decode("utf-8", "replace").rstrip("\r")
    if held:
        yield held.decode("utf-8", "replace").rstrip("\r")
