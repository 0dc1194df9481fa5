"""What an evaluation asks of a server: a protocol, so that any of them is measured the same way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from app.domain import Usage
from app.errors import Invalid
from app.evaluation.metrics import Found
from app.evaluation.questions import Passage, Triple

MAX_VARIANT = 200
_VARIANT = re.compile(r"[A-Za-z][\w.-]*(?::\w+(?:\.\w+)?=[^:,]+)*", re.ASCII)

Told = Callable[[int, int], None]  # done, total


@dataclass(frozen=True, slots=True)
class Variant:
    """A mode and options of it that differ from the server's defaults; `label` names both."""

    label: str
    mode: str
    options: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, label: str) -> Variant:
        """`mix`, or with options as `mix:mix_style=lightrag:low_level=false`, or within one as
        `asr:asr.ablate=gate+path`. Values are JSON or text; what has a plus is a list, of one
        element as `gate+`. Raises `Invalid`."""
        label = label.strip()
        if len(label) > MAX_VARIANT or not _VARIANT.fullmatch(label):
            raise Invalid(
                f"{label[:80]!r} is no mode: write its name, and options behind it as "
                "mode:option=value."
            )
        mode, *options = label.split(":")
        given: dict[str, object] = {}
        for name, _, text in (one.partition("=") for one in options):
            outer, _, inner = name.rpartition(".")
            within = given.setdefault(outer, {}) if outer else given
            if not isinstance(within, dict):
                raise Invalid(f"{label}: {outer} is given twice.")
            within[inner] = _value(text)
        return cls(label, mode, given)


def _value(text: str) -> object:
    if "+" in text:
        return [_value(part) for part in text.split("+") if part]
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str | int | float | bool) else text


@dataclass(frozen=True, slots=True)
class Ingested:
    """What storing the corpus came to. `reused`: it was there already, and nothing was stored."""

    documents: int
    seconds: float
    usage: Usage = field(default_factory=Usage)
    failed: Mapping[str, str] = field(default_factory=dict)  # document id -> why
    reused: bool = False


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What a server found for a question, best first. `tokens` is the length of the whole context
    in tokens, `ms` the time from request to reply as the caller sees it."""

    chunks: tuple[Found, ...] = ()
    entities: tuple[str, ...] = ()
    triples: tuple[Triple, ...] = ()  # relations: one end, keywords, the other end
    tokens: int = 0
    usage: Usage = field(default_factory=Usage)
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `found` False: the server says that nothing relevant is stored."""

    text: str
    found: bool = True
    usage: Usage = field(default_factory=Usage)
    ms: float = 0.0


class Target(Protocol):
    """A server, or the engine in this process. Its methods raise errors of `app.errors` only."""

    @property
    def name(self) -> str:
        """Of what is measured, as reports show it."""
        ...

    async def describe(self) -> Mapping[str, str]:
        """Versions and settings that a report needs; no addresses, keys or paths."""
        ...

    async def ingest(self, passages: Sequence[Passage], told: Told) -> Ingested:
        """Have the server hold exactly these documents, under their ids, and wait until all can be
        found or have failed. What it holds already is not sent again."""
        ...

    async def retrieve(self, question: str, variant: Variant) -> Retrieval:
        """What the answer would be made from; no answer is written."""
        ...

    async def answer(self, question: str, variant: Variant) -> Reply: ...

    async def discard(self) -> None:
        """Delete what `ingest` stored."""
        ...
