"""Stored files sent piece by piece, whole or in part (RFC 9110, ranges of bytes)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fastapi import Request
from fastapi.responses import StreamingResponse

from app.errors import Unsatisfiable
from app.ports import Blobs

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


async def download(
    blobs: Blobs, key: str, request: Request, *, media_type: str, headers: Mapping[str, str]
) -> StreamingResponse:
    """In memory is a piece at a time, however long the file. A range of a form that is not known is
    ignored, as the standard has it; several ranges are. Raises `NotFound`, `Unsatisfiable`."""
    size = await blobs.size(key)
    tag = f'"{key}"'
    wanted = request.headers.get("range", "")
    if request.headers.get("if-range", tag) != tag:
        wanted = ""
    span = span_of(wanted, size)
    start, end = span or (0, size)
    sent = {
        **headers, "Accept-Ranges": "bytes", "ETag": tag, "Content-Length": str(end - start),
    }  # fmt: skip
    if span:
        sent["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return StreamingResponse(
        blobs.pieces(key, start=start, end=end), status_code=206 if span else 200,
        media_type=media_type, headers=sent,
    )  # fmt: skip


def span_of(wanted: str, size: int) -> tuple[int, int] | None:
    """First byte and the one behind the last; None: the whole."""
    asked = _RANGE.fullmatch(wanted.strip().lower())
    if not asked or asked[1] == asked[2] == "":
        return None
    if not asked[1]:
        start, end = max(0, size - int(asked[2])), size
    else:
        start, end = int(asked[1]), min(size, int(asked[2]) + 1) if asked[2] else size
        if asked[2] and int(asked[2]) < start:
            return None
    if start >= end:
        raise Unsatisfiable(f"The file has {size} bytes; this range has none of them.")
    return start, end
