"""What a settlement does to placements, the same in both graph stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.domain import Placement
from app.names import key as normal_key
from app.resolution.settlement import Settlement


@dataclass(frozen=True, slots=True)
class Placing:
    """`drop` are (key, scope). `moves` are (name, entity that may have its evidence): to be folded
    anew. `entities` are all whose evidence may come to be elsewhere, and where it may go."""

    put: list[Placement] = field(default_factory=list)
    drop: list[tuple[str, str]] = field(default_factory=list)
    moves: set[tuple[str, str]] = field(default_factory=set)
    entities: set[str] = field(default_factory=set)
    was: dict[str, str] = field(default_factory=dict)  # of names that move as a whole
    now: dict[str, str] = field(default_factory=dict)

    def lead(self, followers: Iterable[tuple[str, str]], wholes: Mapping[str, str]) -> None:
        """Take along what scoped placements lead to a name that itself is placed elsewhere.
        `followers`: names with such a placement, and to which of `was` it leads. `wholes`: what
        `entities` meant before, as names of their own."""
        self.moves.update((name, self.was[target]) for name, target in followers)
        self.moves.update(
            (name, wholes[source]) for name, source in list(self.moves) if source in wholes
        )
        for entity in list(self.entities):
            self.entities.update({wholes.get(entity, entity), self.now.get(entity, entity)})


def following(found: Iterable[Placement], wholes: Mapping[str, str]) -> list[Placement]:
    """Placements with a scope lead to what the name that they lead to means as a whole, or one name
    would be two entities. One step is all: whole placements lead to entities."""
    return [
        one._replace(entity=wholes.get(one.entity, one.entity)) if one.scope else one
        for one in found
    ]


def targets(found: Iterable[Placement]) -> set[str]:
    """Names whose whole placements `following` needs."""
    return {one.entity for one in found if one.scope and one.entity}


def settled_keys(settlement: Settlement) -> set[str]:
    """Names whose placements, but those by hand, a settlement may change."""
    return {*(one.key for one in settlement.resolved), *settlement.gone, *settlement.placed}


def placing(before: Iterable[Placement], settlement: Settlement) -> Placing:
    """What changes; `before` are the placements of `settled_keys` that are not by hand. A name that
    is gone means itself again."""
    whole: dict[str, str] = {}
    scoped: dict[str, dict[str, str]] = {}  # key -> scope -> form
    for one in before:
        if one.scope:
            scoped.setdefault(one.key, {})[one.scope] = one.name
        else:
            whole[one.key] = one.entity
    placed = {**{key: key for key in settlement.gone}, **settlement.placed}
    apart: dict[str, Mapping[str, str]] = {one.key: one.apart for one in settlement.resolved}
    apart |= {key: {} for key in settlement.gone}
    change = Placing()
    for key in sorted(placed):
        _place(change, key, whole.get(key, key), placed[key])
    for key in sorted(apart):
        here = placed.get(key, whole.get(key, key))
        _part(change, key, here, scoped.get(key, {}), apart[key])
    return change


def _place(change: Placing, key: str, was: str, entity: str) -> None:
    if was == entity:
        return
    if entity == key:
        change.drop.append((key, ""))
    else:
        change.put.append(Placement(key, "", entity))
    change.moves.add((key, was))
    change.entities.update((was, entity))
    change.was[key], change.now[key] = was, entity


def _part(
    change: Placing, key: str, here: str, had: Mapping[str, str], wanted: Mapping[str, str]
) -> None:
    """Mentions of one name that say they are another thing."""
    if had == wanted:
        return
    for scope in sorted(had.keys() | wanted.keys()):
        form = wanted.get(scope, "")
        if not form:
            change.drop.append((key, scope))
        elif had.get(scope) != form:
            change.put.append(Placement(key, scope, normal_key(form), form))
    sources = {here, *(normal_key(form) for form in had.values())}
    change.moves.update((key, source) for source in sources)
    change.entities.update(sources, (normal_key(form) for form in wanted.values()))
