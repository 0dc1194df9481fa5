"""What kind of file an upload is: by its first bytes, then by its name.

Content decides where it is unmistakable (a PDF is a PDF whatever it is called); the name decides
among formats that look alike (Markdown, CSV and plain text).
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType

from app.errors import Unparsable

PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
EPUB = "application/epub+zip"
HTML = "text/html"
MARKDOWN = "text/markdown"
CSV = "text/csv"
TSV = "text/tab-separated-values"
JSON = "application/json"
JSONL = "application/x-ndjson"
TEXT = "text/plain"

SUPPORTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        PDF: (".pdf",),
        DOCX: (".docx", ".docm", ".dotx"),
        PPTX: (".pptx", ".pptm", ".ppsx"),
        XLSX: (".xlsx", ".xlsm"),
        EPUB: (".epub",),
        HTML: (".html", ".htm", ".xhtml"),
        MARKDOWN: (".md", ".markdown", ".mdx"),
        CSV: (".csv",),
        TSV: (".tsv", ".tab"),
        JSON: (".json", ".geojson"),
        JSONL: (".jsonl", ".ndjson"),
        TEXT: (
            ".txt", ".text", ".log", ".rst", ".adoc", ".org", ".tex", ".srt", ".vtt", ".yaml",
            ".yml", ".toml", ".ini", ".xml", ".sql", ".py", ".js", ".ts", ".java", ".c", ".h",
            ".cpp", ".go", ".rs", ".rb", ".sh",
        ),
    }
)  # fmt: skip
"""Media types that can be read, each with the endings of file names that stand for it."""

_BY_SUFFIX = {suffix: media for media, suffixes in SUPPORTED.items() for suffix in suffixes}
_ALIASES = {
    "application/xhtml+xml": HTML,
    "text/x-markdown": MARKDOWN,
    "application/csv": CSV,
    "text/json": JSON,
    "application/jsonl": JSONL,
    "application/jsonlines": JSONL,
    "application/x-jsonlines": JSONL,
    "application/x-pdf": PDF,
}
_PACKAGES = {DOCX: "word/", PPTX: "ppt/", XLSX: "xl/"}
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # old Office files, and encrypted new ones
_FOREIGN = (  # formats that are surely not text and that nothing here reads
    b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"\x7fELF", b"MZ\x90", b"\x1f\x8b", b"BZh",
    b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!", b"ID3", b"OggS", b"fLaC", b"RIFF", b"\x00\x00\x00\x18ftyp",
    b"\x00\x00\x00\x20ftyp", b"SQLite format 3\x00", b"\xca\xfe\xba\xbe", b"wOFF", b"II*\x00",
    b"MM\x00*", b"%!PS", b"{\\rtf",
)  # fmt: skip
_UNICODE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")


def media_type_of(name: str, declared: str, data: bytes) -> str:
    """Media type to read a file as, by content, then name, then the declared type.

    Raises `Unparsable` (`unsupported_type`) where nothing here can read it."""
    guess = _guess(name, declared)
    head = data[:1024]
    if b"%PDF-" in (head if guess == PDF else head[:16]):
        return PDF
    if head.startswith(b"PK\x03\x04"):
        found = _package(data, guess)
    elif head.startswith(_OLE):
        found = guess if guess in _PACKAGES else ""
    elif guess in (PDF, EPUB, *_PACKAGES):
        found = guess  # the parser says what is broken about it
    elif head.startswith(_FOREIGN) or not (guess or _looks_like_text(data)):
        found = ""
    else:
        found = guess or (HTML if _looks_like_html(head) else TEXT)
    if not found:
        raise Unparsable(
            f"{name or 'The file'} is of no type that can be read: "
            "PDF, DOCX, PPTX, XLSX, EPUB, HTML, Markdown, CSV, JSON or text.",
            code="unsupported_type",
        )
    return found


def text_type_of(name: str) -> str:
    """Media type of text that came as a string: by its name, if that stands for a text format."""
    guess = _guess(name, "")
    return TEXT if guess in (PDF, EPUB, *_PACKAGES) else guess or TEXT


def _guess(name: str, declared: str) -> str:
    suffix = PurePosixPath(name.replace("\\", "/").lower()).suffix
    hint = declared.partition(";")[0].strip().lower()
    return _BY_SUFFIX.get(suffix) or _ALIASES.get(hint) or (hint if hint in SUPPORTED else "")


def _package(data: bytes, guess: str) -> str:
    """Of a ZIP file: its members tell Office formats and EPUB apart."""
    if guess == EPUB or b"mimetypeapplication/epub+zip" in data[:128]:
        return EPUB
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            names = package.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return guess if guess in _PACKAGES else ""
    for media_type, folder in _PACKAGES.items():
        if any(member.startswith(folder) for member in names):
            return media_type
    return guess if guess in _PACKAGES else ""


def _looks_like_text(data: bytes) -> bool:
    """Not binary: no NUL bytes, unless they are the pattern of UTF-16 or UTF-32."""
    sample = data[:65_536]
    if sample.startswith(_UNICODE_MARKS) or b"\x00" not in sample:
        control = sum(byte < 32 and byte not in b"\t\n\r\f\x0b\x1b\x08" for byte in sample[:4096])
        return sample.startswith(_UNICODE_MARKS) or control <= len(sample[:4096]) // 20
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    return max(even, odd) * 4 > len(sample) and min(even, odd) * 8 < max(even, odd)


def _looks_like_html(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype html", b"<html"))
