"""Around every request: its id, a bound on its body, one log line, counters, a last net for bugs.

Plain ASGI, because a middleware of Starlette's base class would buffer and re-task streams.
"""

from __future__ import annotations

import logging
import re
import sys
import time
import uuid
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems
from app.errors import AppError
from app.telemetry import Metrics, current

log = logging.getLogger("heliograph.api")

SMALL_BODY = 4 * 2**20  # everything but uploads
OVERHEAD = 2**20  # of multipart or JSON around the bytes of an upload

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_RESTORE = re.compile(r"(/v1)?/admin/workspaces/[^/]+/restore")
_ESCAPED = re.compile(rb"%2f", re.IGNORECASE)
# Stands for a slash inside one segment of a path; ids cannot hold control characters.
SLASH = "\x1f"


class RequestMiddleware:
    def __init__(
        self, app: ASGIApp, *, metrics: Metrics, max_upload_bytes: int, max_restore_bytes: int
    ) -> None:
        self.app = app
        self.metrics = metrics
        self.max_upload_bytes, self.max_restore_bytes = max_upload_bytes, max_restore_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, _one_sentence(send))
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        token = current.set(request_id)
        began, status = time.perf_counter(), 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            await send(message)

        _keep_escaped_slashes(scope)
        self.metrics.in_flight.inc()
        try:
            await self._answer(scope, receive, send_marked, headers)
        except ClientDisconnect:
            status = status or 499
        except Exception:
            log.exception("request.bug method=%s route=%s", scope["method"], _route(scope))
            if not status:
                answer = problems.response(problems.internal(), path=scope["path"])
                await answer(scope, receive, send_marked)
        finally:
            self.metrics.in_flight.dec()
            self._record(scope, status, time.perf_counter() - began)
            current.reset(token)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        limit = SMALL_BODY
        if scope["method"] == "POST" and scope["path"].endswith(
            ("/documents", "/documents/estimate")
        ):
            limit = self.max_upload_bytes + OVERHEAD
        elif _RESTORE.fullmatch(scope["path"]):
            limit = self.max_restore_bytes  # of a workspace, which goes to the disk
        declared = headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared) > limit:
            refusal = problems.response(_too_large(limit), path=scope["path"])
            await refusal(scope, receive, send)
            return
        await self.app(scope, _bounded(receive, limit), send)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route, method = _route(scope), scope["method"]
        if method not in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
            method = "other"
        self.metrics.requests.labels(method, route, str(status)).inc()
        self.metrics.seconds.labels(method, route).observe(seconds)
        quiet = route in ("/healthz", "/readyz", "/metrics")
        log.log(
            logging.DEBUG if quiet else logging.INFO,
            "request method=%s route=%s status=%d ms=%.0f workspace=%s",
            method, route, status, seconds * 1000, scope.get("state", {}).get("workspace", "-"),
        )  # fmt: skip


def _one_sentence(send: Send) -> Send:
    """A refused start (`lifespan`) is told in its sentence, not as a traceback."""

    async def told(message: Message) -> None:
        error = sys.exc_info()[1]
        if message["type"] == "lifespan.startup.failed" and isinstance(error, AppError):
            message = {**message, "message": f"{error.title}: {error.detail}"}
        await send(message)

    return told


def _bounded(receive: Receive, limit: int) -> Receive:
    total = 0

    async def bounded() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > limit:
            # The only exception that FastAPI and Starlette's form reader let through unchanged.
            raise HTTPException(413, _too_large(limit)["detail"])
        return message

    return bounded


def _too_large(limit: int) -> dict[str, Any]:
    detail = f"The body is larger than the {limit:,} bytes that are taken here."
    return problems.problem(413, "too_large", "Too large", detail)


def _route(scope: Scope) -> str:
    """The template, never the path itself, which may hold ids."""
    route = scope.get("route")
    return getattr(route, "path", "") or "unmatched"


def _keep_escaped_slashes(scope: Scope) -> None:
    """Routing sees decoded paths, in which an id such as `docs/a.md` (sent as `docs%2Fa.md`) would
    fall apart; keep its slashes out of sight until `deps.plain` puts them back."""
    raw: bytes = scope.get("raw_path") or b""
    raw = raw.partition(b"?")[0]
    if _ESCAPED.search(raw):
        scope["path"] = "/".join(
            unquote(part.decode("latin-1")).replace("/", SLASH) for part in raw.split(b"/")
        )
