"""The graph fingerprint: one hash of all that documents left in a workspace.

Equal for equal documents, whatever the store, the order of arrival, the detours on the way and the
name of the workspace. Each record becomes a line of canonical JSON; the hash of a part is the sum
of its lines' SHA-256 modulo 2^256, which needs no order and no memory, and sees doubles.

Texts that a model wrote depend on the order of arrival in their wording: they count by presence and
by the evidence that they cover. A dense vector counts by sixteen rounded sums of its numbers: a
float differs in its last digits from one machine to another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from app.ports import Workspace
from app.upkeep.lines import Line, lines

PARTS = (
    "documents", "chunks", "extractions", "mentions", "assertions", "entities", "relations",
    "aliases", "rulings", "communities", "points",
)  # fmt: skip
_MODULUS = 2**256


@dataclass(slots=True)
class Part:
    count: int = 0
    total: int = 0

    def add(self, line: str) -> None:
        digest = hashlib.sha256(line.encode("utf-8", "surrogatepass")).digest()
        self.count += 1
        self.total = (self.total + int.from_bytes(digest)) % _MODULUS

    @property
    def hash(self) -> str:
        return f"{self.total:064x}"


@dataclass(slots=True)
class Fingerprint:
    parts: dict[str, Part] = field(default_factory=lambda: {name: Part() for name in PARTS})

    @property
    def hash(self) -> str:
        text = "\n".join(
            f"{name} {part.count} {part.hash}" for name, part in sorted(self.parts.items())
        )
        return hashlib.sha256(text.encode()).hexdigest()


def canonical(line: Line) -> str:
    """One line of JSON, the same for equal records."""
    return json.dumps(line, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


async def dump(workspace: Workspace, into: Fingerprint | None = None) -> AsyncIterator[str]:
    """All lines, in no order to rely on; adds them up in `into`. Memory is bounded by a page.

    While documents are on their way it shows a state in between."""
    async for line in lines(workspace):
        text = canonical(line)
        if into is not None:
            into.parts[line["part"]].add(text)
        yield text


async def fingerprint(workspace: Workspace) -> Fingerprint:
    found = Fingerprint()
    async for _ in dump(workspace, found):
        pass
    return found
