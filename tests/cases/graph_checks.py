"""Checks of the graph: entities, relations, the fingerprint."""

from __future__ import annotations

import unicodedata
from typing import Any

from tests.cases.checks import Told, at_most, check, first, outside, strings, tokens
from tests.cases.prints import differences
from tests.cases.run import Run, quoted

Entity = dict[str, Any]


def normal(name: str) -> str:
    """Enough to compare names, and not the service's own rule, which is under test."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def entities(run: Run, told: Told) -> list[Entity]:
    workspace = run.workspace(told.get("workspace"))
    return run.pages("/graph/entities", "entities", workspace)


def _named(run: Run, told: Told) -> tuple[set[str], set[str]]:
    """Names and aliases, normalised."""
    found = entities(run, told)
    names = {normal(one["name"]) for one in found}
    return names, {normal(alias) for one in found for alias in one["aliases"]}


@check("entities_include")
def entities_include(run: Run, told: Told, wanted: Any) -> str:
    names, aliases = _named(run, told)
    missing = [one for one in strings(wanted) if normal(one) not in names | aliases]
    return f"entities missing: {missing} among {sorted(names)[:20]}" if missing else ""


@check("entities_exclude")
def entities_exclude(run: Run, told: Told, unwanted: Any) -> str:
    names, aliases = _named(run, told)
    there = [one for one in strings(unwanted) if normal(one) in names | aliases]
    return f"entities still there: {there}" if there else ""


@check("entity")
def entity(run: Run, told: Told, name: str) -> str:
    found = [one for one in entities(run, told) if normal(one["name"]) == normal(name)]
    if "count" in told and (fault := outside(f"entities {name!r}", len(found), told["count"])):
        return fault
    if not found:
        return "" if told.get("count") == 0 else f"no entity {name!r}"
    kind = told.get("type", told.get("kind"))
    if kind is not None and all(normal(one["type"]) != normal(kind) for one in found):
        return f"{name!r} is of type {found[0]['type']!r}"
    text = told.get("contains"), told.get("lacks")
    if missing := [one for one in strings(text[0]) if one not in found[0]["text"]]:
        return f"the profile of {name!r} lacks {missing}: {found[0]['text'][:200]!r}"
    if there := [one for one in strings(text[1]) if one in found[0]["text"]]:
        return f"the profile of {name!r} holds {there}"
    if "mentions" in told:
        mentions = sum(one["mentions"] for one in found)
        return outside(f"mentions of {name!r}", mentions, told["mentions"])
    return ""


@check("entity_count")
def entity_count(run: Run, told: Told, bound: Any) -> str:
    found = entities(run, told)
    return outside(f"entities {[one['name'][:40] for one in found[:10]]}", len(found), bound)


@check("not_merged")
def not_merged(run: Run, told: Told, pairs: Any) -> str:
    """No two of a group are one entity; one that was left out harms nothing."""
    found = entities(run, told)
    for group in pairs:
        for one in found:
            own = {normal(one["name"]), *map(normal, one["aliases"])}
            if len(both := [name for name in group if normal(name) in own]) > 1:
                return f"{both} are one entity"
    return ""


@check("names_free_of")
def names_free_of(run: Run, told: Told, marks: Any) -> str:
    wrong = [
        (one["name"], one["type"]) for one in entities(run, told)
        if any(mark in one["name"] or mark in one["type"] for mark in strings(marks))
    ]  # fmt: skip
    return f"marks in names or types: {wrong[:5]}" if wrong else ""


@check("names_max_chars")
def names_max_chars(run: Run, told: Told, limit: Any) -> str:
    longest = max((len(one["name"]) for one in entities(run, told)), default=0)
    return at_most("characters of a name", longest, limit)


@check("relations_include")
def relations_include(run: Run, told: Told, pairs: Any) -> str:
    workspace = run.workspace(told.get("workspace"))
    missing = [
        (source, target) for source, target in pairs
        if run.look("/graph/relation", workspace, source=source, target=target) is None
    ]  # fmt: skip
    return f"relations missing: {missing}" if missing else ""


@check("relations_exclude")
def relations_exclude(run: Run, told: Told, pairs: Any) -> str:
    workspace = run.workspace(told.get("workspace"))
    there = [
        (source, target) for source, target in pairs
        if run.look("/graph/relation", workspace, source=source, target=target) is not None
    ]  # fmt: skip
    return f"relations still there: {there}" if there else ""


def relations(run: Run, told: Told) -> dict[tuple[str, str], Any]:
    """All that entities show (200 of each), by ids of their ends."""
    workspace = run.workspace(told.get("workspace"))
    found = {}
    for one in entities(run, told):
        path = f"/graph/entities/{quoted(one['id'])}"
        detail = run.look(path, workspace, relations=200, limit=1)
        for relation in (detail or {}).get("relations", []):
            found[relation["source_id"], relation["target_id"]] = relation
    return found


@check("self_loops")
def self_loops(run: Run, told: Told, bound: Any) -> str:
    loops = [pair for pair in relations(run, told) if pair[0] == pair[1]]
    return at_most(f"self loops {loops[:3]}", len(loops), int(bound))


@check("relation_count")
def relation_count(run: Run, told: Told, bound: Any) -> str:
    return outside("relations", len(relations(run, told)), bound)


@check("profile_tokens_max")
def profile_tokens_max(run: Run, told: Told, limit: Any) -> str:
    def longest(what: str, texts: list[str]) -> str:
        most = max(map(tokens, sorted(texts, key=len)[-50:]), default=0)
        return at_most(f"tokens of a profile of {what}", most, limit)

    found = entities(run, told)
    hubs = sorted(found, key=lambda one: -one["degree"])[:5]
    workspace = run.workspace(told.get("workspace"))
    around = [
        relation["text"]
        for hub in hubs
        for relation in run.look(f"/graph/entities/{quoted(hub['id'])}", workspace, relations=200)[
            "relations"
        ]
    ]
    return first(
        longest("an entity", [one["text"] for one in found]), longest("a relation", around)
    )


@check("fingerprint_equals")
def fingerprint_equals(run: Run, _told: Told, other: Any) -> str:
    return differences(run, str(other))
