"""Any supported file to plain text, whatever it does to the parser.

Untrusted files go to a child process with limits on time and memory. Small files in formats that
are read in linear time and without native parsers (text, Markdown, CSV, JSON) are parsed in a
thread of this process, so that a thousand notes cost a thousand milliseconds.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import logging
import os
from typing import Any

from app.media import CSV, JSON, JSONL, MARKDOWN, SUPPORTED, TEXT, TSV, media_type_of
from workers.parsing.child import answer
from workers.parsing.layout import Heading, Limits, Parsed
from workers.parsing.pool import Order, Pool, Reply
from workers.parsing.refusals import SENTENCES, refusal

__all__ = [
    "SENTENCES", "SUPPORTED", "Heading", "Limits", "Parsed", "media_type_of", "parse",
]  # fmt: skip

log = logging.getLogger("heliograph.parsing")

# Bytes up to which a format is read here; a second at the worst, for text made to take long.
_SMALL = {**dict.fromkeys((TEXT, CSV, TSV, JSON, JSONL), 1 << 18), MARKDOWN: 1 << 15}


async def parse(data: bytes, name: str, media_type: str, *, limits: Limits) -> Parsed:
    """Text, pages and headings of a document.

    Raises `app.errors.Unparsable` with one of the codes of `SENTENCES`. Cancelling kills the child.
    """
    if media_type not in SUPPORTED:
        media_type = media_type_of(name, media_type, data)
    if len(data) <= _SMALL.get(media_type, 0):
        reply: Reply = await asyncio.to_thread(answer, data, media_type, limits)
    else:
        reply = await _in_child(data, media_type, limits)
    if "parsed" not in reply:
        log.warning(
            "document.refused code=%s cause=%s media_type=%s size=%d",
            reply["code"], reply.get("cause", ""), media_type, len(data),
        )  # fmt: skip
        raise refusal(str(reply["code"]))
    return _parsed(reply["parsed"])


async def _in_child(data: bytes, media_type: str, limits: Limits) -> Reply:
    pool = _pool()
    order = Order(data, media_type, limits)
    try:
        return await asyncio.get_running_loop().run_in_executor(pool.executor, pool.parse, order)
    except asyncio.CancelledError:
        order.cancel()
        raise


@functools.cache
def _pool() -> Pool:
    """One per process, like the processors that it keeps busy."""
    pool = Pool(min(4, os.cpu_count() or 1))
    atexit.register(pool.close)
    return pool


def _parsed(fields: dict[str, Any]) -> Parsed:
    return Parsed(
        fields["text"],
        fields["title"],
        tuple((offset, number) for offset, number in fields["pages"]),
        tuple(Heading(**heading) for heading in fields["headings"]),
        tuple(fields["warnings"]),
    )
