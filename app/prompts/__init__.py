"""The prompts: one `*.md` file each, with a system part, a user part, and named fields.

A folder of the operator's may hold files of the same names that replace ours.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from app.domain import Prompt
from app.errors import Misconfigured

HERE = Path(__file__).parent
NAMES = (
    "extract", "glean", "repair", "summarise", "keywords", "judge", "answer", "bypass",
    "hyde", "decompose", "bridge",
    "compare", "describe", "propose-users", "propose-tasks", "propose-questions",
    "community", "points",
)  # fmt: skip
_FIELD = re.compile(r"\{\{(\w+)\}\}")
_PARTS = re.compile(r"^<!-- user -->\n", re.MULTILINE)


class Prompts:
    """All prompts, read and checked once."""

    def __init__(self, folder: Path | None = None) -> None:
        ours = {name: _read(HERE / f"{name}.md") for name in NAMES}
        self._texts = dict(ours)
        for name, text in ours.items():
            path = folder / f"{name}.md" if folder else None
            if path and path.is_file():
                self._texts[name] = _read(path)
                _same_fields(path, text, self._texts[name])

    def fill(self, name: str, fields: Mapping[str, str]) -> Prompt:
        """Values are put in as they are: nothing within them is a field."""
        parts = [_FIELD.sub(lambda match: fields[match[1]], part) for part in self._parts(name)]
        return Prompt(system=parts[0].strip(), user=_without_gaps(parts[1]))

    def digest(self, name: str) -> str:
        """Identifies the wording, for cache keys."""
        return hashlib.sha256(self._texts[name].encode()).hexdigest()[:12]

    def _parts(self, name: str) -> list[str]:
        return _PARTS.split(self._texts[name], maxsplit=1)


def fence(text: str) -> str:
    """Untrusted text as a fenced block that nothing in it can end: the fence is longer than any run
    of its character within."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}text\n{text}\n{marks}"


def _read(path: Path) -> str:
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    if len(_PARTS.split(text)) != 2:
        raise Misconfigured(f"{path.name}: a prompt has one line `<!-- user -->` between its parts")
    return text


def _same_fields(path: Path, ours: str, theirs: str) -> None:
    known, used = set(_FIELD.findall(ours)), set(_FIELD.findall(theirs))
    if unknown := used - known:
        names = ", ".join(sorted(unknown))
        raise Misconfigured(f"{path.name} has unknown fields: {names}; known: {sorted(known)}")


def _without_gaps(text: str) -> str:
    """Without the blank lines that empty fields leave."""
    return re.sub(r"\n{3,}", "\n\n", text).strip()
