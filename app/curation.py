"""What people decide about names and entities: join, split, remove, and take it back.

Decisions are kept beside the evidence and hold for later documents; the evidence itself is never
rewritten, so each of them can be undone. A job of the workspace carries them out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from app.domain import Entity, Placement, Ruling
from app.errors import Conflict, Invalid, NotFound
from app.folding import document_of, document_scope, is_of_document, sense_of
from app.names import is_blank
from app.names import key as normal_key
from app.ports import GraphReader, Workspace
from app.resolution.decide import decision
from app.resolution.model import Name
from app.resolution.score import compare
from app.resolution.settlement import Reviewed

SPLIT = "split by hand"  # a note outlives documents, so it names nothing that they said
MAX_USES = 100_000  # mentions by name and document that one decision may move


@dataclass(frozen=True, slots=True)
class Group:
    """A part of an entity: what these documents say of it, or what goes by these names."""

    name: str = ""
    documents: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


async def entity_of(graph: GraphReader, given: str) -> Entity:
    """By id, else by any of its names."""
    found = await graph.entities([given])
    if found:
        return found[0]
    key = normal_key(given)
    named = await graph.find([key]) if key else {}
    if key not in named:
        raise NotFound("There is no such entity.")
    return named[key]


async def rule(workspace: Workspace, one: str, other: str, *, same: bool, note: str) -> Ruling:
    """A user's word on two names, known or not yet."""
    ruling = _ruling(normal_key(one), normal_key(other), same, note)
    keys = [ruling.one, ruling.other]
    entities = {key: key for key in keys}
    entities |= {name.key: name.entity for name in await workspace.names.known(keys)}
    overruled: list[Ruling] = []
    if same and len(set(entities.values())) > 1:
        overruled = await _overruled(workspace, entities.values(), ruling)
    await workspace.names.rule([ruling, *overruled])
    return ruling


def _key_of(given: str) -> str:
    """Of a name, or a normal form as lists show it: that of an acronym is not its own."""
    acronym = normal_key(given[1:].upper()) if given.startswith("^") else ""
    return acronym if acronym == given else normal_key(given)


def _ruling(one: str, other: str, same: bool, note: str) -> Ruling:
    if is_blank(one) or is_blank(other):
        raise Invalid("A name has at least one character that can be seen.", code="blank_name")
    if one == other:
        raise Invalid("Both are one name to begin with.", code="same_name")
    first, second = sorted((one, other))
    return Ruling(first, second, same, "user", note, time.time())


async def unrule(workspace: Workspace, one: str, other: str) -> None:
    first, second = sorted((_key_of(one), _key_of(other)))
    if not await workspace.names.unrule(first, second):
        raise NotFound("Nobody has decided on these two names.")


async def merge(workspace: Workspace, entities: Sequence[str], note: str) -> list[Ruling]:
    """Make several entities one, by a word on a name of each."""
    found = {
        one.key: one for one in [await entity_of(workspace.graph, given) for given in entities]
    }
    if len(found) < 2:
        raise Invalid("All these names mean the same entity.", code="same_entity")
    await _must_be_names(workspace, found)
    keys = sorted(found)
    rulings = [_ruling(keys[0], key, True, note) for key in keys[1:]]
    rulings += await _overruled(workspace, keys, *rulings)
    await workspace.names.rule(rulings)
    return rulings


async def _overruled(
    workspace: Workspace, entities: Iterable[str], *rulings: Ruling
) -> list[Ruling]:
    """What else has to be said for the entities to become one: a model's word on any two of their
    names is set aside. Conflict where it is the user's own."""
    members = await workspace.names.members(sorted(set(entities)))
    home = {key: entity for entity, keys in members.items() for key in keys}
    home |= {entity: entity for entity in entities}
    said = {(one.one, one.other) for one in rulings}
    apart = [
        one
        for one in await workspace.names.rulings(sorted(home))
        if not one.same and (one.one, one.other) not in said
        and one.one in home and one.other in home and home[one.one] != home[one.other]
    ]  # fmt: skip
    for one in apart:
        if one.by == "user":
            raise Conflict(
                f"You decided that {one.one} and {one.other} are two things, and these would make "
                "them one. Take that back first (DELETE /graph/resolution).",
                code="decided_apart",
            )
    return [_ruling(one.one, one.other, True, rulings[0].note) for one in apart]


async def _must_be_names(workspace: Workspace, keys: Iterable[str]) -> None:
    known = {name.key for name in await workspace.names.known(list(keys)) if name.mentions}
    for key in keys:
        if key not in known:
            raise Conflict(
                f"No document uses the name of entity {key}: it was split off by hand or by what "
                "its mentions say. Take that back instead (GET /graph/edits).",
                code="not_a_name",
            )


async def split(workspace: Workspace, given: str, groups: Sequence[Group]) -> int:
    """Several entities out of one. Groups of documents go by what these say of it, now and in
    later versions; groups of names part the names for good. How much was recorded."""
    entity = await entity_of(workspace.graph, given)
    _check_groups(groups)
    used = await workspace.names.used_by(entity.key, limit=MAX_USES + 1)
    if len(used) > MAX_USES:
        raise Invalid(
            f"More than {MAX_USES} mentions would have to move; split by names instead.",
            code="too_many_mentions",
        )
    by_names = [group for group in groups if group.names]
    placements = await _placed(workspace, entity.key, groups, used)
    if not placements and not by_names:
        raise Invalid("None of these documents mentions the entity.", code="not_mentioned")
    own = {key for key, _ in used}
    rulings = _parted(by_names, own) if by_names else []
    if rulings:
        await workspace.names.rule(rulings)
    if placements:
        await workspace.names.place(placements)
    return len(rulings) + len(placements)


def _check_groups(groups: Sequence[Group]) -> None:
    documents = [one for group in groups for one in group.documents]
    if len(set(documents)) < len(documents):
        raise Invalid("A document may be in one group only.", code="overlapping_groups")
    if any(bool(group.names) == bool(group.documents) for group in groups):
        raise Invalid("A group has either documents or names.", code="bad_group")
    if any(group.documents and is_blank(group.name) for group in groups):
        raise Invalid("A group of documents needs the name of the new entity.", code="bad_group")


async def _placed(
    workspace: Workspace, entity: str, groups: Sequence[Group], used: Sequence[tuple[str, str]]
) -> list[Placement]:
    group_of = {document: group for group in groups for document in group.documents}
    moved = [(key, document) for key, document in used if document in group_of]
    return [
        Placement(key, scope, normal_key(group_of[document].name), group_of[document].name)
        for key, document, scope in await _scopes(workspace, entity, moved)
    ]


async def _scopes(
    workspace: Workspace, entity: str, used: Sequence[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """Name, document and scope of its mentions there that mean the entity: all of the document,
    unless the name means other things too by what mentions say of it. Those stay as they are."""
    keys = sorted({key for key, _ in used})
    senses = {one.key: {"", *one.scopes} for one in await workspace.names.known(keys)}
    home, parted = {key: key for key in keys}, {key: dict[str, str]() for key in keys}
    said: set[tuple[str, str]] = set()  # of a whole document, by hand
    for one in await workspace.archive.placements_of(keys):
        if is_of_document(one.scope):
            if sense_of(one.scope) is None:
                said.add((one.key, document_of(one.scope)))
        elif one.scope:
            parted[one.key][one.scope] = one.entity
        else:
            home[one.key] = one.entity
    found: list[tuple[str, str, str]] = []
    for key, document in used:
        every = senses.get(key, {""}) | parted[key].keys()
        mine = {sense for sense in every if parted[key].get(sense, home[key]) == entity}
        if (key, document) in said or not mine or mine == every:
            found.append((key, document, document_scope(document)))
        else:
            found += [(key, document, document_scope(document, one)) for one in sorted(mine)]
    return found


def _parted(groups: Sequence[Group], own: set[str]) -> list[Ruling]:
    """Names of no group stay with the entity's own name."""
    parts = [{normal_key(name) for name in group.names} for group in groups]
    if strange := {key for part in parts for key in part} - own:
        raise Invalid(
            f"{', '.join(sorted(strange)[:5])}: not a name of this entity.", code="not_its_name"
        )
    if any(one & other for one, other in combinations(parts, 2)):
        raise Invalid("A name may be in one group only.", code="overlapping_groups")
    rest = own - {key for part in parts for key in part}
    if not rest and len(parts) == 1:
        raise Invalid("This group has all names of the entity.", code="bad_group")
    every = [*parts, *([rest] if rest else [])]
    return [
        _ruling(one, other, False, SPLIT)
        for mine, theirs in combinations(every, 2)
        for one in sorted(mine)
        for other in sorted(theirs)
    ]


async def remove(workspace: Workspace, given: str) -> int:
    """Take an entity out of the graph: what present documents say of it counts no more, in later
    versions of them neither. A document that comes later makes it again. How many mentions went."""
    entity = await entity_of(workspace.graph, given)
    used = await workspace.names.used_by(entity.key, limit=MAX_USES + 1)
    if len(used) > MAX_USES:
        raise Invalid(f"More than {MAX_USES} mentions would have to go.", code="too_many_mentions")
    await workspace.names.place(
        [Placement(key, scope, "") for key, _, scope in await _scopes(workspace, entity.key, used)]
    )
    return len(used)


async def compared(workspace: Workspace, one: str, other: str) -> Reviewed:
    """Two names as the rules see them, recorded or not."""
    keys = sorted((normal_key(one), normal_key(other)))
    if keys[0] == keys[1]:
        raise Invalid("Both are one name to begin with.", code="same_name")
    for reviewed in await workspace.names.pairs(keys[:1]):
        if reviewed.pair.keys == (keys[0], keys[1]):
            return reviewed
    known = {name.key: name for name in await workspace.names.known(keys)}
    forms = {normal_key(one): one, normal_key(other): other}
    first, second = (
        Name(key, known[key].form, known[key].kind, known[key].aliases)
        if key in known
        else Name(key, forms[key])
        for key in keys
    )
    pair = compare(first, second)
    return Reviewed(pair, decision(pair))


async def undo(workspace: Workspace, name: str, document_id: str | None) -> int:
    """Take back where mentions of a name were put by hand, in one document or all; how many."""
    key = _key_of(name)
    found: list[Placement] = []
    after = f"{key}\t"
    while page := await workspace.names.placed(after=after, limit=1000):
        found += [one for one in page if one.key == key]
        if page[-1].key != key:
            break
        after = page[-1].place
    if document_id is not None:
        found = [one for one in found if document_of(one.scope) == document_id]
    if not found:
        raise NotFound("Nothing was put by hand for this name.")
    await workspace.names.place(found, remove=True)
    return len(found)
