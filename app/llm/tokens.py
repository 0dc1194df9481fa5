"""Token counting by tiktoken, with its rank files shipped: no network, ever."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import tiktoken

from app.recent import Recent

RANKS = Path(__file__).parents[1] / "data" / "tiktoken"

# tiktoken's pattern backtracks over runs of blanks and panics beyond about a million characters.
PIECE = 1 << 16
# After a letter or digit, white space always begins a new word of every tiktoken pattern, so a cut
# there leaves all tokens as they are. (No underscore: punctuation and line feeds join.)
SEAM = re.compile(r"(?<=[^\W_])\s")
SURROGATE = re.compile("[\ud800-\udfff]")

# Questions show the same passages and profiles again and again, and to count their tokens was a
# fourteenth of the CPU of a question. By digest (200 bytes each), so it takes 3 MiB at most.
REMEMBERED = 1 << 14

EncodingName = Literal["o200k_base", "cl100k_base"]


class TiktokenTokenizer:
    """Port `Tokenizer`. Text that looks like a special token is ordinary text."""

    def __init__(self, encoding: EncodingName = "o200k_base") -> None:
        with _shipped_ranks():
            self._encoding = tiktoken.get_encoding(encoding)
        self._counts: Recent[bytes, int] = Recent(REMEMBERED)
        self._lock = threading.Lock()

    def count(self, text: str) -> int:
        """Counts of texts that were counted lately are known."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            known = self._counts.get(digest)
        if known is None:
            pieces = _pieces(_clean(text))
            known = sum(len(self._encoding.encode_ordinary(piece)) for piece in pieces)
            with self._lock:
                self._counts.put(digest, known)
        return known

    def offsets(self, text: str) -> list[int]:
        """Start offset in characters of every token; a token that begins inside a character has
        the offset of that character."""
        starts: list[int] = []
        begin = 0
        for piece in _pieces(_clean(text)):
            seen = begin  # characters begun so far
            for token in self._encoding.decode_tokens_bytes(self._encoding.encode_ordinary(piece)):
                inside = token[0] & 0xC0 == 0x80
                starts.append(seen - 1 if inside else seen)
                seen += _characters(token)
            begin += len(piece)
        return starts

    def cut(self, text: str, limit: int) -> str:
        """The longest prefix of at most `limit` tokens that ends at a character boundary."""
        if limit <= 0:
            return ""
        if len(text) <= limit and len(_clean(text).encode()) <= limit:  # a token has a byte or more
            return text
        window = 8 * limit + 256
        tokens = self._first(text[:window], limit + 1)
        while len(tokens) <= limit and window < len(text):
            window *= 4
            tokens = self._first(text[:window], limit + 1)
        if len(tokens) <= limit:
            return text
        # Cut off from what follows, the last tokens may split otherwise: then give way.
        for size in range(limit, 0, -1):
            prefix = text[: _whole_characters(self._encoding.decode_bytes(tokens[:size]))]
            if self.count(prefix) <= limit:
                return prefix
        return ""

    def _first(self, text: str, count: int) -> list[int]:
        """The tokens that a text begins with."""
        tokens: list[int] = []
        for piece in _pieces(_clean(text)):
            tokens += self._encoding.encode_ordinary(piece)
            if len(tokens) >= count:
                break
        return tokens[:count]


def _clean(text: str) -> str:
    """Without lone surrogates, which have no UTF-8 form; same length."""
    return SURROGATE.sub("\ufffd", text)


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > PIECE:
        seam = SEAM.search(text, start + PIECE // 2, start + PIECE)
        end = seam.start() if seam else start + PIECE
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _characters(data: bytes) -> int:
    """How many UTF-8 characters begin in the bytes."""
    if data.isascii():
        return len(data)
    return sum(byte & 0xC0 != 0x80 for byte in data)


def _whole_characters(data: bytes) -> int:
    """How many characters end in the bytes, which begin with one."""
    return len(data.decode(errors="ignore"))


@contextmanager
def _shipped_ranks() -> Iterator[None]:
    """tiktoken finds its files through the environment; a user's own setting is put back."""
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(RANKS)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
