"""What two dumps do not have in common, in words."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from app.errors import Invalid

SHOWN = 120  # characters of a value

Key = tuple[str, str]


def difference(ours: Iterable[str], theirs: Iterable[str]) -> Iterator[str]:
    """A line for each record that is `missing` in theirs, `extra` there, or `changed`, by part and
    id. Keeps one dump, less what both have, in memory."""
    left: defaultdict[Key, list[str]] = defaultdict(list)
    for text in _texts(ours):
        left[_key(text)].append(text)
    more: defaultdict[Key, list[str]] = defaultdict(list)
    for text in _texts(theirs):
        key = _key(text)
        if text in left.get(key, ()):
            left[key].remove(text)
        else:
            more[key].append(text)
    for key in sorted({*(key for key, texts in left.items() if texts), *more}):
        yield from _of_record(key, left.get(key, []), more.get(key, []))


def _texts(dump: Iterable[str]) -> Iterator[str]:
    return (line for text in dump if (line := text.strip()))


def _key(text: str) -> Key:
    return str(_parsed(text)["part"]), str(_parsed(text)["id"])


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        record = json.loads(text)
        if isinstance(record, dict) and "part" in record and "id" in record:
            return record
    except ValueError:
        pass
    raise Invalid("This is no dump of a fingerprint: each line must be a record as JSON.")


def _of_record(key: Key, ours: list[str], theirs: list[str]) -> Iterator[str]:
    name = " ".join(key)
    for mine, other in zip(ours, theirs, strict=False):
        yield f"changed {name}: {'; '.join(_fields(_parsed(mine), _parsed(other)))}"
    for _ in ours[len(theirs) :]:
        yield f"missing {name}"
    for _ in theirs[len(ours) :]:
        yield f"extra {name}"


def _fields(mine: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for field in sorted(mine.keys() | other.keys()):
        if mine.get(field) != other.get(field):
            yield f"{field} {_value(mine.get(field))} -> {_value(other.get(field))}"


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
