"""A Heliograph service over HTTP as a target: the same requests that any client makes."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx

from app import errors
from app.domain import Usage
from app.evaluation.metrics import Found
from app.evaluation.questions import Passage
from app.evaluation.targets import Ingested, Reply, Retrieval, Told, Variant

BATCH_DOCUMENTS = 100
BATCH_CHARACTERS = 4_000_000
PAGE = 500
DELETE_AT_ONCE = 1000
TRIES = 6  # of a request that the server could not take now
LOOK_SECONDS = 1.0
STAMP = "evaluation"  # metadata field: digest of what a document was made from
OPEN = ("queued", "parsing", "extracting", "merging", "indexing", "deleting")

_ERRORS: Mapping[int, type[errors.AppError]] = {
    400: errors.Invalid, 401: errors.Unauthenticated, 403: errors.Forbidden,
    404: errors.NotFound, 409: errors.Conflict, 413: errors.TooLarge, 422: errors.Invalid,
    429: errors.Overloaded, 502: errors.BadModelOutput, 503: errors.Unavailable,
}  # fmt: skip


@asynccontextmanager
async def heliograph(
    url: str, workspace: str, *, key: str = "", seconds: float = 300.0
) -> AsyncIterator[HeliographTarget]:
    """A target at this address, for as long as the context lasts."""
    headers = {"X-Workspace": workspace}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    try:
        base = httpx.URL(url.rstrip("/"))
    except httpx.InvalidURL as error:
        raise errors.Invalid(f"This is no URL of a service: {error}.") from None
    if base.scheme not in ("http", "https") or not base.host:
        raise errors.Invalid("Give the URL of a service as http://host:port or https://host.")
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=seconds) as client:
        yield HeliographTarget(client)


class HeliographTarget:
    """Implements `app.evaluation.targets.Target`. The client knows address, key and workspace."""

    def __init__(self, client: httpx.AsyncClient, *, name: str = "heliograph") -> None:
        self._client, self.name = client, name
        self._stored: list[str] = []

    async def describe(self) -> Mapping[str, str]:
        alive = await self._call("GET", "/healthz")
        ready = await self._call("GET", "/readyz")
        found = {"heliograph": str(alive["version"])}
        for name, one in sorted(ready.get("dependencies", {}).items()):
            found[name] = str(one.get("version") or "?")
        return found

    # --- documents -------------------------------------------------------------------------------

    async def ingest(self, passages: Sequence[Passage], told: Told) -> Ingested:
        began = time.monotonic()
        wanted = {one.id: one for one in passages}
        held = await self._held()
        if foreign := [id for id in held if id not in wanted]:
            raise errors.Conflict(
                f"The workspace holds {len(foreign)} documents that are not of this corpus, such "
                f"as {foreign[0]!r}: choose another workspace for it."
            )
        self._stored = list(wanted)
        missing = [one for one in passages if not _is(held.get(one.id), one)]
        for batch in _batches(missing):
            await self._call("POST", "/documents", {"documents": [_body(one) for one in batch]})
        await self._wait(len(wanted), told)
        held = await self._held()
        usage = Usage()
        for one in held.values():
            usage += usage_of(one.get("usage"))
        failed = {
            id: str((one.get("error") or {}).get("message", "unknown"))
            for id, one in held.items()
            if one["status"] == "failed"
        }
        seconds = time.monotonic() - began
        return Ingested(len(held), seconds, usage, failed, reused=not missing)

    async def discard(self) -> None:
        held = list(await self._held())
        for start in range(0, len(held), DELETE_AT_ONCE):
            ids = held[start : start + DELETE_AT_ONCE]
            await self._call("POST", "/documents/delete", {"ids": ids})
        await self._wait(len(held), lambda done, total: None)

    async def texts(self) -> AsyncIterator[str]:
        """The chunks of all documents, as the service cut them."""
        for id in await self._held():
            cursor = ""
            while True:
                path = f"/documents/{quote(id, safe='')}/chunks"
                page = await self._call("GET", path, params=_paged(cursor))
                for chunk in page["chunks"]:
                    yield chunk["text"]
                cursor = page["next"] or ""
                if not cursor:
                    break

    async def _held(self) -> dict[str, dict[str, Any]]:
        """All documents of the workspace by id."""
        found: dict[str, dict[str, Any]] = {}
        cursor = ""
        while True:
            page = await self._call("GET", "/documents", params=_paged(cursor))
            found |= {one["id"]: one for one in page["documents"]}
            cursor = page["next"] or ""
            if not cursor:
                return found

    async def _wait(self, total: int, told: Told) -> None:
        while True:
            counts = await self._call("GET", "/documents/counts")
            open_ = sum(counts.get(status, 0) for status in OPEN)
            told(max(0, total - open_), total)
            if not open_:
                return
            await asyncio.sleep(LOOK_SECONDS)

    # --- questions -------------------------------------------------------------------------------

    async def retrieve(self, question: str, variant: Variant) -> Retrieval:
        body, ms = await self._ask(question, variant, only_context=True)
        context = body["context"] or {}
        return Retrieval(
            chunks=tuple(
                Found(one["document_id"], one.get("document_name", ""), one["text"])
                for one in context.get("chunks", ())
            ),
            entities=tuple(one["name"] for one in context.get("entities", ())),
            triples=tuple(
                (one["source"], ", ".join(one["keywords"]), one["target"])
                for one in context.get("relations", ())
            ),
            tokens=int(context.get("tokens", 0)),
            usage=usage_of(body.get("usage")),
            ms=ms,
        )

    async def answer(self, question: str, variant: Variant) -> Reply:
        body, ms = await self._ask(question, variant, only_context=False)
        return Reply(body["answer"], bool(body.get("found", True)), usage_of(body.get("usage")), ms)

    async def _ask(
        self, question: str, variant: Variant, *, only_context: bool
    ) -> tuple[dict[str, Any], float]:
        asked = {**variant.options, "query": question, "mode": variant.mode}
        began = time.perf_counter()
        body = await self._call("POST", "/query", {**asked, "only_context": only_context})
        return body, 1000 * (time.perf_counter() - began)

    # --- HTTP ------------------------------------------------------------------------------------

    async def _call(
        self, method: str, path: str, body: object = None, *,
        params: Mapping[str, str | int] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        for attempt in range(1, TRIES + 1):
            try:
                reply = await self._client.request(method, path, json=body, params=params)
            except httpx.HTTPError as error:
                said = type(error).__name__
                failure: errors.AppError = errors.Unavailable(f"The service is away ({said}).")
            else:
                if reply.is_success:
                    return _object(reply)
                failure = _failure(reply)
            if not failure.transient or attempt == TRIES:
                raise failure
            await asyncio.sleep(_pause(failure, attempt))
        raise AssertionError("the last try returns or raises")


def _paged(cursor: str) -> dict[str, str | int]:
    return {"limit": PAGE, "cursor": cursor} if cursor else {"limit": PAGE}


def _pause(failure: errors.AppError, attempt: int) -> float:
    return min(60.0, failure.retry_after or 0.5 * 2.0**attempt) * random.uniform(1.0, 1.25)


def _failure(reply: httpx.Response) -> errors.AppError:
    try:
        problem = reply.json()
    except ValueError:
        problem = {}
    said = problem.get("detail") if isinstance(problem, dict) else None
    kind = _ERRORS.get(reply.status_code, errors.AppError)
    after = reply.headers.get("retry-after", "")
    return kind(
        f"The service answers {reply.status_code}: {said or reply.reason_phrase}",
        retry_after=float(after) if after.isdecimal() else None,
    )


def _object(reply: httpx.Response) -> dict[str, Any]:
    try:
        value = reply.json()
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise errors.Invalid("What answers at this URL is no Heliograph service.")
    return value


# --- documents as the service knows them ---------------------------------------------------------


def _stamp(passage: Passage) -> str:
    return hashlib.sha256(f"{passage.title}\x1f{passage.text}".encode()).hexdigest()[:32]


def _body(passage: Passage) -> dict[str, Any]:
    """Without a title it gets the name of a file, which tells nothing of what it is about."""
    name = passage.title or f"{passage.id.lower()}.txt"
    metadata = {STAMP: _stamp(passage)}
    return {"id": passage.id, "name": name, "text": passage.text, "metadata": metadata}


def _is(held: Mapping[str, Any] | None, passage: Passage) -> bool:
    """Whether a document is this one, ready or on its way."""
    return (
        held is not None
        and held["status"] not in ("failed", "deleting")
        and held.get("metadata", {}).get(STAMP) == _stamp(passage)
    )


def _batches(passages: Sequence[Passage]) -> list[list[Passage]]:
    batches: list[list[Passage]] = []
    size = 0
    for one in passages:
        full = not batches or len(batches[-1]) == BATCH_DOCUMENTS
        if full or size + len(one.text) > BATCH_CHARACTERS:
            batches.append([])
            size = 0
        batches[-1].append(one)
        size += len(one.text)
    return batches


def usage_of(body: object) -> Usage:
    """Of a `usage` object of a response."""
    given = body if isinstance(body, dict) else {}
    return Usage(
        int(given.get("llm_calls", 0)), int(given.get("prompt_tokens", 0)),
        int(given.get("completion_tokens", 0)), float(given.get("cost", 0.0)),
    )  # fmt: skip
