"""The one tolerant reader of model replies: keeps usable records, counts others, never raises.

Understands the JSON that our prompt asks for, its usual deformations and other projects' key names,
and the line formats of LightRAG prompts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from app.domain import EntityMention, Extraction, Keywords, RelationMention, Usage
from app.llm import cleaning
from app.llm.cleaning import Rejected
from app.llm.lenient import Cut, values
from app.llm.lines import SEPARATOR, is_complete, records
from app.llm.thoughts import without_thoughts
from app.names import key as normal_key

Record = TypeVar("Record", EntityMention, RelationMention)

NO_USAGE = Usage()
MAX_ENTITIES = 400  # of one chunk; more is a model in a loop
MAX_RELATIONS = 600
MAX_REFUSAL = 1000  # characters
MAX_WALK = 6  # levels of wrapping around the records

_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m|i am)(?: \w+)? sorry\b|(?:sorry|apologies|unfortunately),? (?:but )?i\b"
    r"|i (?:can['’]?t|cannot|can not|won['’]?t|will not|must decline)\b"
    r"|(?:i['’]?m|i am) (?:unable|not able)\b|as an ai\b"
    r"|es tut mir leid|tut mir leid|ich kann (?:dabei |das |dies |diese |ihnen )?\w* ?nicht"
    r"|(?:je suis )?désolée?,|je ne peux pas|lo siento|no puedo\b|mi dispiace|non posso\b"
    r"|desculpe|não posso\b|het spijt me|(?:很)?抱歉|对不起|我无法|我不能|申し訳|죄송)",
    re.IGNORECASE,
)

_ENTITY_LISTS = frozenset(("entities", "nodes", "entity", "node", "extracted_entities", "concepts"))
_RELATION_LISTS = frozenset(
    ("relationships", "relations", "edges", "relationship", "relation", "edge", "links", "triples",
     "triplets", "extracted_relationships", "extracted_relations")
)  # fmt: skip
_NAME = ("name", "entity_name", "entityname", "entity", "title", "label", "id", "node")
_KIND = ("type", "entity_type", "entitytype", "kind", "category", "label", "class")
_DESCRIPTION = (
    "description", "entity_description", "relationship_description", "relation_description", "desc",
    "summary", "explanation", "evidence",
)  # fmt: skip
_ALIASES = ("aliases", "alias", "also_known_as", "alternative_names", "synonyms")
_SOURCE = (
    "source", "src", "src_id", "source_entity", "source_name", "source_id", "sourceentity", "from",
    "subject", "head", "entity1", "start",
)  # fmt: skip
_TARGET = (
    "target", "tgt", "tgt_id", "target_entity", "target_name", "target_id", "targetentity", "to",
    "object", "tail", "entity2", "end", "dst",
)  # fmt: skip
_KEYWORDS = (
    "keywords", "relationship_keywords", "relation_keywords", "keyword", "themes", "type",
    "relation", "predicate", "relationship", "relation_type", "relationship_type", "label",
)  # fmt: skip
_STRENGTH = ("strength", "relationship_strength", "weight", "score", "importance")
_LOW = ("low_level_keywords", "low_level", "low", "lowlevelkeywords", "specific", "entities")
_HIGH = ("high_level_keywords", "high_level", "high", "highlevelkeywords", "themes", "topics")


@dataclass(slots=True)
class Reading:
    """What a reply holds. `readable`: it is a reply of the asked kind, if perhaps an empty one."""

    entities: list[EntityMention] = field(default_factory=list)
    relations: list[RelationMention] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)  # by reason
    readable: bool = False

    def plus(self, other: Reading) -> Reading:
        """Both, of the same text; what the other repeats counts once."""
        return Reading(
            list(dict.fromkeys((*self.entities, *other.entities))),
            list(dict.fromkeys((*self.relations, *other.relations))),
            self.dropped + other.dropped,
            self.readable or other.readable,
        )

    def extraction(self, *, model: str, usage: Usage = NO_USAGE) -> Extraction:
        return Extraction(
            entities=tuple(self.entities),
            relations=tuple(self.relations),
            model=model,
            dropped=self.dropped.total(),
            usage=usage,
        )


def read_extraction(reply: str, *, cut: bool = False) -> Reading:
    """`cut`: the model stopped at its length limit, so a last line without end is half a record."""
    text = without_thoughts(reply)
    raw = _Raw()
    if not _looks_like_lines(text):
        for value in values(text):
            raw.collect(value, 0)
    if not raw.readable:
        raw.collect_lines(text, cut=cut)
    return _judge(raw)


def read_keywords(reply: str) -> Keywords | None:
    """Of the last object that has any; None if the reply is something else."""
    found: Keywords | None = None
    for value in values(without_thoughts(reply)):
        for candidate in value if isinstance(value, list) else [value]:
            if not isinstance(candidate, dict):
                continue
            record = _lowered(candidate)
            if any(key in record for key in (*_LOW[:4], *_HIGH[:4])):
                found = Keywords(
                    cleaning.words(_first(record, _LOW)), cleaning.words(_first(record, _HIGH))
                )
    return found if found and (found.low or found.high) else None


def read_text(reply: str) -> str:
    """Prose: without reasoning at its start and without a fence around the whole."""
    text = without_thoughts(reply).strip()
    if text.startswith("```") and text.endswith("```") and text.count("```") == 2:
        text = text[3:-3].partition("\n")[2].strip() or text
    return text


def refuses(reply: str) -> bool:
    """Whether the model says that it will not do what it was asked, in one of the languages that
    models do it in; quoted or reported speech is none."""
    text = read_text(reply)
    return len(text) <= MAX_REFUSAL and _REFUSAL.match(text) is not None


# --- collecting ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Raw:
    """Records as found, not yet judged."""

    entities: list[Mapping[str, object]] = field(default_factory=list)
    relations: list[Mapping[str, object]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    readable: bool = False

    def collect(self, value: object, depth: int) -> None:
        if depth > MAX_WALK:
            return
        if isinstance(value, list):
            # A bare empty list is an answer: nothing found.
            self.readable |= not value
            for item in value:
                self.collect(item, depth + 1)
        elif isinstance(value, dict):
            self._collect_object(value, depth)

    def _collect_object(self, value: dict[str, object], depth: int) -> None:
        record = _lowered(value)
        found = False
        for key, item in record.items():
            if key in _ENTITY_LISTS | _RELATION_LISTS and isinstance(item, list | dict):
                found = self.readable = True
                self._collect_list(item, is_entities=key in _ENTITY_LISTS)
        if found:
            return
        if _first(record, _SOURCE) is not None and _first(record, _TARGET) is not None:
            self._add(value, record, is_entity=False)
        elif _first(record, _NAME[:4]) is not None and len(record) > 1:
            self._add(value, record, is_entity=True)
        else:
            for item in record.values():
                if isinstance(item, list | dict):
                    self.collect(item, depth + 1)

    def _collect_list(self, items: list[object] | dict[str, object], *, is_entities: bool) -> None:
        if isinstance(items, dict):  # by name, or a single record
            items = _records_by_name(items) or [items]
        for item in items:
            if isinstance(item, dict):
                self._add(item, _lowered(item), is_entity=is_entities)
            elif isinstance(item, list):
                self._collect_row(item, is_entities=is_entities)
            elif is_entities and isinstance(item, str):
                self._add({}, {"name": item}, is_entity=True)
            else:
                self.dropped["not a record"] += 1

    def _collect_row(self, row: list[object], *, is_entities: bool) -> None:
        """Positional: [name, type, description], [source, relation, target] or with more fields."""
        if is_entities:
            keys: tuple[str, ...] = ("name", "type", "description")
        else:
            keys = ("source", "keywords", "target", "description")
        self._add({}, dict(zip(keys, row, strict=False)), is_entity=is_entities)

    def _add(
        self, value: Mapping[str, object], record: Mapping[str, object], *, is_entity: bool
    ) -> None:
        self.readable = True
        if isinstance(value, Cut):
            self.dropped["cut off"] += 1
        elif is_entity and (
            _first(record, _SOURCE[:4]) is not None and _first(record, _TARGET[:4]) is not None
        ):
            self.relations.append(record)
        else:
            (self.entities if is_entity else self.relations).append(record)

    def collect_lines(self, text: str, *, cut: bool) -> None:
        found = list(records(text))
        if is_complete(text):
            self.readable = True
        elif cut and found:
            found.pop()
            self.dropped["cut off"] += 1
        for record in found:
            if record.kind == "entity":
                self.entities.append(record.fields)
            elif record.kind == "relation":
                self.relations.append(record.fields)
            else:
                self.dropped["unreadable line"] += 1
        self.readable |= bool(self.entities or self.relations)


def _records_by_name(items: Mapping[str, object]) -> list[object]:
    return [{"name": key, **item} for key, item in items.items() if isinstance(item, dict)]


def _looks_like_lines(text: str) -> bool:
    """A separator before the first brace: JSON would have its opening bracket first."""
    braces = [place for place in (text.find("{"), text.find("[")) if place >= 0]
    return SEPARATOR.search(text, 0, min(braces, default=len(text))) is not None


def _lowered(value: Mapping[str, object]) -> dict[str, object]:
    return {str(key).strip().lower().replace(" ", "_").replace("-", "_"): item
            for key, item in value.items()}  # fmt: skip


def _first(record: Mapping[str, object], keys: tuple[str, ...]) -> object:
    return next((record[key] for key in keys if record.get(key) not in (None, "")), None)


# --- judging -------------------------------------------------------------------------------------


def _judge(raw: _Raw) -> Reading:
    reading = Reading(dropped=raw.dropped, readable=raw.readable)
    entities = dict.fromkeys(_entities(raw.entities, reading.dropped))
    reading.entities = _within(list(entities), MAX_ENTITIES, reading.dropped)
    known = _spellings(reading.entities)
    ids = {_id(entity["id"]): _first(entity, _NAME) for entity in raw.entities if "id" in entity}
    pairs = [_with_names(relation, ids) for relation in raw.relations]
    relations = dict.fromkeys(_relations(pairs, known, reading.dropped))
    reading.relations = _within(list(relations), MAX_RELATIONS, reading.dropped)
    listed = {entity.name for entity in reading.entities}
    ends = (end for relation in reading.relations for end in (relation.source, relation.target))
    reading.entities += [
        EntityMention(end, "", "") for end in dict.fromkeys(ends) if end not in listed
    ]
    return reading


def _entities(found: list[Mapping[str, object]], dropped: Counter[str]) -> Iterator[EntityMention]:
    for record in found:
        kind = cleaning.kind(_first(record, _KIND))
        try:
            name = cleaning.name(_first(record, _NAME), kind)
        except Rejected as rejected:
            dropped[rejected.reason] += 1
            continue
        yield EntityMention(
            name=name,
            kind=kind,
            description=cleaning.text(_first(record, _DESCRIPTION)),
            aliases=_aliases(record.get(next((k for k in _ALIASES if k in record), "")), name),
        )


def _aliases(value: object, name: str) -> tuple[str, ...]:
    found = []
    for alias in cleaning.words(value, cleaning.MAX_ALIASES):
        try:
            clean = cleaning.name(alias)
        except Rejected:
            continue
        if clean != name:
            found.append(clean)
    return tuple(found)


def _spellings(entities: list[EntityMention]) -> dict[str, str]:
    """Normal key of every name, and of every alias that only one entity has, to the name."""
    names = {normal_key(entity.name): entity.name for entity in entities}
    owners: dict[str, set[str]] = {}
    for entity in entities:
        for alias in entity.aliases:
            owners.setdefault(normal_key(alias), set()).add(entity.name)
    unique = {alias: next(iter(owner)) for alias, owner in owners.items() if len(owner) == 1}
    return unique | names


def _with_names(record: Mapping[str, object], ids: Mapping[str, object]) -> Mapping[str, object]:
    """A relation whose ends may be given by the ids of entity records."""
    source, target = _first(record, _SOURCE), _first(record, _TARGET)
    if not ids or not isinstance(source, str | float | int):
        return record
    return {
        **record,
        "source": ids.get(_id(source), source),
        "target": ids.get(_id(target), target),
    }


def _id(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _relations(
    found: list[Mapping[str, object]], known: dict[str, str], dropped: Counter[str]
) -> Iterator[RelationMention]:
    for record in found:
        try:
            source = cleaning.name(_first(record, _SOURCE))
            target = cleaning.name(_first(record, _TARGET))
        except Rejected as rejected:
            dropped[f"relation end: {rejected.reason}"] += 1
            continue
        # The first spelling of an end that was not listed stands for the later ones.
        source = known.setdefault(normal_key(source), source)
        target = known.setdefault(normal_key(target), target)
        if normal_key(source) == normal_key(target):
            dropped["self loop"] += 1
            continue
        yield RelationMention(
            source=source,
            target=target,
            description=cleaning.text(_first(record, _DESCRIPTION)),
            keywords=cleaning.words(_first(record, _KEYWORDS)),
            strength=cleaning.strength(_first(record, _STRENGTH)),
        )


def _within(items: list[Record], limit: int, dropped: Counter[str]) -> list[Record]:
    if len(items) > limit:
        dropped["too many"] += len(items) - limit
    return items[:limit]
