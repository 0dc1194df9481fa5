"""The child process: reads documents from standard input, answers on standard output.

Started as `python -m workers.parsing.child`. It limits itself before it parses anything, so that a
hostile file costs at most the limits and reaches no network, no other program and no file to write.
For each document it forks: a crash, leak or exhausted limit ends with the fork, and the modules
that are already imported serve the next document. The process has one thread only.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from app import media
from app.errors import Unparsable
from workers.parsing.layout import Limits, Parsed, is_blank
from workers.parsing.refusals import refusal

_FORBIDDEN = ("socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.spawn", "os.system")
_SIZE = struct.Struct(">Q")


def read_frame(stream: BinaryIO) -> bytes:
    """A block with its length before it; b"" at the end of the stream."""
    head = stream.read(_SIZE.size)
    return stream.read(_SIZE.unpack(head)[0]) if len(head) == _SIZE.size else b""


def write_frame(stream: BinaryIO, block: bytes) -> None:
    stream.write(_SIZE.pack(len(block)))
    stream.write(block)
    stream.flush()


def parse_here(data: bytes, media_type: str, limits: Limits) -> Parsed:
    """Parse in this process. Raises `Unparsable`."""
    if not data:
        raise refusal("empty")
    parsed = _parser(media_type)(data, limits)
    if is_blank(parsed.text):
        raise refusal("empty")
    return parsed


def _parser(media_type: str) -> Callable[[bytes, Limits], Parsed]:
    """Modules are imported on demand: a text file must not pay for the PDF library."""
    if media_type not in _PARSERS:
        raise refusal("unsupported_type")
    module, name = _PARSERS[media_type]
    parser: Callable[[bytes, Limits], Parsed] = getattr(
        importlib.import_module(f"workers.parsing.{module}"), name
    )
    return parser


_PARSERS = {
    media.PDF: ("pdf", "parse_pdf"),
    media.DOCX: ("docx", "parse_docx"),
    media.PPTX: ("pptx", "parse_pptx"),
    media.XLSX: ("xlsx", "parse_xlsx"),
    media.EPUB: ("epub", "parse_epub"),
    media.HTML: ("html", "parse_html"),
    media.MARKDOWN: ("markdown", "parse_markdown"),
    media.TEXT: ("text", "parse_text"),
    media.CSV: ("delimited", "parse_csv"),
    media.TSV: ("delimited", "parse_tsv"),
    media.JSON: ("records", "parse_json"),
    media.JSONL: ("records", "parse_jsonl"),
}


def answer(data: bytes, media_type: str, limits: Limits) -> dict[str, Any]:
    """The result as JSON can hold it: a `Parsed`, or an error code with its cause."""
    try:
        return {"parsed": asdict(parse_here(data, media_type, limits))}
    except Unparsable as error:
        return {"code": error.code, "cause": type(error.__cause__).__name__}
    except (MemoryError, RecursionError) as error:
        return {"code": "too_complex", "cause": type(error).__name__}
    # The edge of the process: whatever a parsing library throws at a broken file ends here.
    except Exception as error:
        return {"code": "damaged", "cause": type(error).__name__}


def main() -> int:
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(_guard)
    while head := read_frame(source):
        data = read_frame(source)
        order = json.loads(head)
        limits = Limits(**order["limits"])
        with contextlib.suppress(Unparsable):
            _parser(order["media_type"])  # imported here, it is there for all forks
        pid = os.fork()
        if pid == 0:
            _work(sink, data, order["media_type"], limits)
        _, status = os.waitpid(pid, 0)
        if status:
            write_frame(sink, json.dumps(_epitaph(status)).encode())
    return 0


def _work(sink: BinaryIO, data: bytes, media_type: str, limits: Limits) -> None:
    _limit(limits)
    try:
        reply = json.dumps(answer(data, media_type, limits), ensure_ascii=False).encode()
    except MemoryError:
        reply = b'{"code": "too_complex", "cause": "MemoryError"}'
    # From here on the reply must arrive whole: it is written in one go, then the fork ends.
    write_frame(sink, reply)
    os._exit(0)


def _limit(limits: Limits) -> None:
    with contextlib.suppress(OSError):  # in a container without room, this goes, not the worker
        Path("/proc/self/oom_score_adj").write_text("1000")
    seconds = max(1, int(limits.seconds))
    memory = limits.memory_mb << 20
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    with contextlib.suppress(ValueError, OSError):  # not every system limits address space
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _guard(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith(_FORBIDDEN):
        raise PermissionError(event)


def _epitaph(status: int) -> dict[str, object]:
    """Why a fork ended without an answer: killed for its time, or crashed."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    # Native libraries trap when they are out of memory.
    exhausted = (
        signal.SIGXCPU, signal.SIGKILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGILL,
    )  # fmt: skip
    code = "too_complex" if number in exhausted else "damaged"
    return {"code": code, "cause": signal.Signals(number).name if number else "exit"}


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
