"""One endpoint of a model server: requests with retries, back-off, limits, and errors of ours.

All endpoints of a process share one `httpx.AsyncClient`; what belongs to one endpoint (slots,
rates, pauses) is here. Keys are never logged, and what a server says only at DEBUG.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx

from app.errors import AppError, BadModelOutput, Invalid, Misconfigured, Overloaded, Unavailable
from app.llm.limits import NO_LIMIT, Limiter, LocalLimiter, Rates

log = logging.getLogger("heliograph.llm")

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
PATIENCE = 120.0  # seconds that a call waits for its turn; after that its caller may come again
RETRIED = frozenset((408, 409, 423, 425, 429, *range(500, 600))) - {501, 505}
MAX_SAID = 2000

_OVERFLOW = re.compile(
    r"context.?(?:length|window|size)|maximum.{0,20}(?:context|token)|too many tokens|too long"
    r"|reduce the length|exceeds? .{0,40}(?:context|tokens)|num_ctx",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content_?filter|content management policy|ResponsibleAI", re.IGNORECASE)
_NO_MODEL = re.compile(r"model.{0,120}(?:not found|does not exist|not exist)|model_not_found", re.I)
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`url`: openai+http(s)://host[:port]/v1 or ollama+http(s)://host:port. Times in seconds."""

    url: str
    key: str = ""
    concurrency: int = 8
    rates: Rates = NO_LIMIT
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
        if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
            raise Misconfigured(f"{scheme}: not a model URL; write openai+https://host/v1")
        return address.rstrip("/")

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"  # the key stays out of logs and traces


class Fault(Exception):
    """What a server answered instead of a result. `said` is for matching and DEBUG, never shown."""

    def __init__(self, status: int, said: str = "", retry_after: float | None = None) -> None:
        super().__init__(f"status {status}")
        self.status, self.said, self.retry_after = status, said, retry_after


def fault_of(error: AppError) -> Fault | None:
    """The server's answer behind an error, if it gave one."""
    return error.__cause__ if isinstance(error.__cause__, Fault) else None


@asynccontextmanager
async def open_http() -> AsyncIterator[httpx.AsyncClient]:
    """The client that all endpoints of a process share."""
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
        limiter: Limiter | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.endpoint = endpoint
        self._http, self._sleep = http, sleep
        self._address = endpoint.address
        self._limiter = limiter or LocalLimiter(endpoint.rates)
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._timeout = httpx.Timeout(endpoint.timeout, connect=endpoint.connect_timeout, pool=None)
        self._headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}

    async def ping(self) -> str:
        """For /readyz: the endpoint answers and takes our key."""
        path = "/api/version" if self.endpoint.dialect == "ollama" else "/models"
        with self._translated():
            response = await self._http.get(
                self._address + path, headers=self._headers, timeout=self.endpoint.connect_timeout
            )
            _check(response.status_code, response.content, response.headers)
        found = _decoded(response.content)
        version = found.get("version") if isinstance(found, dict) else None
        return version if isinstance(version, str) else self.endpoint.dialect

    async def post(
        self, path: str, body: Mapping[str, object], *, tokens: int = 0, attempts: int | None = None
    ) -> object:
        """The JSON that the endpoint answers. `tokens`: an estimate, for the limiter."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._post_once(path, body, tokens)
            except AppError as error:
                if not await self.again(error, attempt, attempts):
                    raise

    async def _post_once(self, path: str, body: Mapping[str, object], tokens: int) -> object:
        await self._turn(tokens)
        begin = time.monotonic()
        with self._translated():
            async with self._slots, asyncio.timeout(self.endpoint.timeout):
                response = await self._http.post(
                    self._address + path,
                    content=_encoded(body),
                    headers={**self._headers, "Content-Type": "application/json"},
                    timeout=self._timeout,
                )
            _check(response.status_code, response.content, response.headers)
        log.debug("model.answered path=%s seconds=%.2f", path, time.monotonic() - begin)
        return _decoded(response.content)

    async def lines(
        self, path: str, body: Mapping[str, object], *, tokens: int = 0
    ) -> AsyncGenerator[str, None]:
        """The lines of a streamed answer as they come; one attempt. The connection may end early
        without an error here: whether the answer was whole is for the dialect to say."""
        await self._turn(tokens)
        with self._translated():
            async with (
                self._slots,
                self._http.stream(
                    "POST",
                    self._address + path,
                    content=_encoded(body),
                    headers={**self._headers, "Content-Type": "application/json"},
                    timeout=self._timeout,
                ) as response,
            ):
                if response.status_code != 200:
                    _check(response.status_code, await response.aread(), response.headers)
                async for line in _lines(response.aiter_bytes()):
                    yield line

    async def again(self, error: AppError, attempt: int, attempts: int | None = None) -> bool:
        """Whether to try once more; waits before saying so."""
        if error.retry_after and fault_of(error):
            await self._limiter.pause(error.retry_after)
        if not _retried(error) or (error.retry_after or 0) > PATIENCE:
            return False
        if attempt >= (attempts or self.endpoint.attempts):
            return False
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
        log.info("model.retry code=%s attempt=%d delay=%.1f", error.code, attempt, delay)
        if not error.retry_after:  # else the pause below lets the next turn come in time
            await self._sleep(delay)
        return True

    async def settle(self, *, reserved: int, used: int) -> None:
        if used != reserved and self.endpoint.rates.tokens:
            await self._limiter.settle(used - reserved)

    async def _turn(self, tokens: int) -> None:
        wait = await self._limiter.reserve(tokens)
        if wait > PATIENCE:
            await self._limiter.cancel(tokens)
            raise Overloaded(
                "the model's rate limit is used up for the moment",
                code="model_rate_limit",
                retry_after=wait,
            )
        if wait > 0:
            await self._sleep(wait)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        host = urlsplit(self._address).netloc.rpartition("@")[2]
        try:
            yield
        except Fault as fault:
            log.debug("model.refused status=%d said=%r", fault.status, fault.said)
            raise _error(fault, host) from fault
        except (httpx.TimeoutException, TimeoutError) as error:
            raise Unavailable(
                f"the model server {host} did not answer in time", code="model_timeout"
            ) from error
        except httpx.DecodingError as error:
            raise BadModelOutput(f"the model server {host} sent a damaged body") from error
        except (httpx.TransportError, httpx.StreamError) as error:
            raise Unavailable(
                f"the model server {host} cannot be reached", code="model_away"
            ) from error


def _encoded(body: Mapping[str, object]) -> bytes:
    # Lone surrogates have no UTF-8 form, and no model needs them.
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def _decoded(body: bytes) -> object:
    try:
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


# --- what an answer that is no result means ------------------------------------------------------


def _check(status: int, body: bytes, headers: Mapping[str, str]) -> None:
    if status != 200:
        said = body[: MAX_SAID * 4].decode("utf-8", "replace")[:MAX_SAID]
        raise Fault(status, said, retry_after(headers.get("retry-after", ""), time.time()))


def retry_after(value: str, now: float) -> float | None:
    """Seconds, from seconds or an HTTP date."""
    text = value.strip()
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,6})?", text):
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _error(fault: Fault, host: str) -> AppError:
    status, said = fault.status, fault.said
    if status in (401, 403):
        return Unavailable(
            f"the model server {host} does not accept the key ({status})",
            code="model_auth",
            transient=False,
        )
    if status == 429 and _QUOTA.search(said):
        return Overloaded(
            f"the quota at the model server {host} is used up",
            code="model_quota",
            retry_after=max(fault.retry_after or 0.0, 2 * PATIENCE),
        )
    if status == 429:
        return Overloaded(
            f"the model server {host} asks to slow down",
            code="model_rate_limit",
            retry_after=fault.retry_after,
        )
    if status in RETRIED:
        return Unavailable(
            f"the model server {host} failed ({status})",
            code="model_failed",
            retry_after=fault.retry_after,
        )
    return _refusal(fault, host)


def _refusal(fault: Fault, host: str) -> AppError:
    """The request itself was refused: the same one again would be, too."""
    status, said = fault.status, fault.said
    if status == 413 or _OVERFLOW.search(said):
        return Invalid("the text is too long for the model's context", code="context_overflow")
    if _FILTERED.search(said):
        return BadModelOutput(
            "the model server's content filter refused the text",
            code="content_filter",
            transient=False,
        )
    if status == 404 or _NO_MODEL.search(said):
        return Unavailable(
            f"the model server {host} does not have the model or path asked for ({status})",
            code="model_not_found",
            transient=False,
        )
    return Unavailable(
        f"the model server {host} refused the request ({status})",
        code="model_rejected",
        transient=False,
    )


def _retried(error: AppError) -> bool:
    return error.transient and isinstance(error, Overloaded | Unavailable)
