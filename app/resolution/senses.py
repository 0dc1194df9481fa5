"""Homonyms: what one mention says a thing is, and which of these must be apart."""

from __future__ import annotations

from collections.abc import Mapping


def scope_of(name: str, kind: str, description: str) -> str:
    """What kind of thing one mention says it is; empty where it says nothing decisive."""
    return ""


def senses(key: str, form: str, scopes: Mapping[str, int]) -> dict[str, str]:
    """Scope -> form of the separate entity, for scopes that must not be the base name."""
    return {}
