"""What an answer of a model server that is no result means, as an error of ours."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Literal

import httpx

from app.errors import AppError, BadModelOutput, Invalid, Overloaded, Unavailable

log = logging.getLogger("heliograph.llm")

RETRIED = frozenset((408, 409, 423, 425, 429, *range(500, 600))) - {501, 505}
QUOTA_SECONDS = 240.0  # until a used-up quota is asked for again
MAX_SAID = 2000

# What a call says of its endpoint. ok: it works (perhaps not with this text); busy: it wants to be
# left alone for a while; failed: it, or the text, is broken; unknown: nothing.
Outcome = Literal["ok", "busy", "failed", "unknown"]

_OVERFLOW = re.compile(
    r"context.?(?:length|window|size)|maximum.{0,20}(?:context|token)|too many tokens|too long"
    r"|reduce the length|exceeds? .{0,40}(?:context|tokens)|num_ctx",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content_?filter|content management policy|ResponsibleAI", re.IGNORECASE)
_NO_MODEL = re.compile(r"model.{0,120}(?:not found|does not exist|not exist)|model_not_found", re.I)
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
_UNKNOWN = ("model_auth", "model_not_found")


class Fault(Exception):
    """What a server answered instead of a result. `said` is for matching and DEBUG, never shown."""

    def __init__(self, status: int, said: str = "", retry_after: float | None = None) -> None:
        super().__init__(f"status {status}")
        self.status, self.said, self.retry_after = status, said, retry_after


def fault_of(error: AppError) -> Fault | None:
    """The server's answer behind an error, if it gave one."""
    return error.__cause__ if isinstance(error.__cause__, Fault) else None


def check(status: int, body: bytes, headers: Mapping[str, str]) -> None:
    """Raises `Fault` for what is no result."""
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


@contextmanager
def translated(host: str, limit: float) -> Iterator[None]:
    """Errors of HTTP and of the server at `host` as ours; `limit`: seconds that it was given."""
    try:
        yield
    except Fault as fault:
        log.debug("model.refused status=%d said=%r", fault.status, fault.said)
        raise _error(fault, host) from fault
    except (httpx.TimeoutException, TimeoutError) as error:
        raise Unavailable(
            f"the model server {host} did not answer within {limit:g} seconds",
            code="model_timeout",
        ) from error
    except httpx.DecodingError as error:
        raise BadModelOutput(f"the model server {host} sent a damaged body") from error
    except (httpx.TransportError, httpx.StreamError) as error:
        raise Unavailable(
            f"the model server {host} cannot be reached", code="model_away"
        ) from error


def outcome_of(error: AppError) -> Outcome:
    """What a call that ended so says of the endpoint."""
    if isinstance(error, Overloaded) or (error.retry_after and fault_of(error)):
        return "busy"
    if retried(error):
        return "failed"
    return "unknown" if error.code in _UNKNOWN else "ok"


def retried(error: AppError) -> bool:
    """Whether the same call may succeed in a moment. A page in place of a completion is what a
    proxy shows while the server behind it is away."""
    if error.code == "no_completion":
        return True
    return error.transient and isinstance(error, Overloaded | Unavailable)


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
            retry_after=max(fault.retry_after or 0.0, QUOTA_SECONDS),
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
