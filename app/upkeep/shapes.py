"""Plain JSON into the nouns, strictly: every field of the type that is written at its class.

`json.loads` says what a text holds, not whether it fits. What does not is refused with its place.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

MOST = 2**63  # integers have 64 bits in the stores


class Misfit(Exception):
    """A value of another type; `at` is its place, such as `live.metadata.year`."""

    def __init__(self, at: str, wanted: str) -> None:
        super().__init__(f"{at or 'the record'} {wanted}")


def fitting(kind: type[T], value: object) -> T:
    """The value as this dataclass or named tuple. Raises `Misfit`.

    Fields are str, int (not negative), float (finite), bool, enums of strings, dataclasses, named
    tuples, `tuple[X, ...]`, mappings and sequences of scalars, and unions of these with None.
    Unknown fields are refused, missing ones only where the class has no default."""
    return cast(T, _read(kind, value, ""))


def _read(kind: Any, value: object, at: str, *, signed: bool = False) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _any_of(get_args(kind), value, at, signed=signed)
    if origin is tuple or origin is Sequence:
        if not isinstance(value, list):
            raise Misfit(at, "is not a list")
        inner = get_args(kind)[0]
        return tuple(
            _read(inner, one, f"{at}[{place}]", signed=signed) for place, one in enumerate(value)
        )
    if origin is Mapping:
        return _mapping(get_args(kind)[1], value, at)
    if kind in _PLAIN:
        return _plain(kind, value, at, signed=signed)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if not isinstance(value, str) or value not in {one.value for one in kind}:
            raise Misfit(at, f"is none of {', '.join(kind)}")
        return kind(value)
    return _record(kind, value, at)


def _any_of(kinds: Sequence[Any], value: object, at: str, *, signed: bool) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    wanted = [kind for kind in kinds if kind is not types.NoneType]
    for kind in wanted:
        try:
            return _read(kind, value, at, signed=signed)
        except Misfit:
            if len(wanted) == 1:
                raise
    raise Misfit(at, "is of no type that may stand here")


def _mapping(inner: Any, value: object, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misfit(at, "is not an object")
    return {
        _plain(str, key, at): _read(inner, one, f"{at}.{key[:64]}", signed=True)
        for key, one in value.items()
    }


_PLAIN: Mapping[type, str] = {
    str: "is not a text", int: "is not a number of 0 or more without a fraction",
    float: "is not a finite number", bool: "is not true or false",
}  # fmt: skip


def _plain(kind: type, value: object, at: str, *, signed: bool = False) -> Any:
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if kind is str:
        fits = fits and not any("\ud800" <= char <= "\udfff" for char in cast(str, value))
    elif kind is int:
        fits = fits and (-MOST if signed else 0) <= cast(int, value) < MOST
    elif kind is float:
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST
        fits = whole or (fits and math.isfinite(cast(float, value)))
    if not fits:
        raise Misfit(at, _PLAIN[kind])
    return float(cast(float, value)) if kind is float else value


def _record(kind: Any, value: object, at: str) -> Any:
    if not isinstance(value, dict):
        raise Misfit(at, "is not an object")
    hints, needed = _fields(kind)
    if unknown := set(value) - set(hints):
        raise Misfit(at, f"has an unknown field, {min(unknown)[:64]!r}")
    if missing := needed - set(value):
        raise Misfit(at, f"lacks the field {min(missing)}")
    place = f"{at}." if at else ""
    return kind(**{key: _read(hints[key], one, f"{place}{key}") for key, one in value.items()})


@cache
def _fields(kind: Any) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Types by field, and the fields without a default."""
    hints = get_type_hints(kind)
    if not is_dataclass(kind):
        return hints, frozenset(set(kind._fields) - set(kind._field_defaults))
    needed = {
        one.name
        for one in fields(kind)
        if one.default is MISSING and one.default_factory is MISSING
    }
    return hints, frozenset(needed)
