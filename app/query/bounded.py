"""The part of the graph that a walk sees: around the best passages and the question's names.

Read in a constant number of calls whatever the size of the store; hubs are not read beyond a cap.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.domain import (
    Chunk,
    ChunkLinks,
    EntityLinks,
    Hit,
    Kind,
    Sparse,
    Vector,
    VectorQuery,
    relation_ends,
)
from app.ports import Workspace
from app.query.direct import by_meaning
from app.query.iteration import Tie
from app.query.late import expected_passages, late_spans
from app.query.links import idf
from app.query.ranking import standardised

MOST_NODES = 1000
MOST_ENTITIES = 300
MOST_SEEDS = 96  # passages read whole
READ_MENTIONS = 24  # of an entity; one with more is a hub and not expanded
READ_ABOUT = 8
DIRECT_SEEDS = 8
ABOUT_SEEDS = 4
MENTION_SEEDS = 8
MENTIONS_AROUND = 8
MOST_FACTS = 250
FACT_SPARSE = 0.5
MAX_Z = 2.5
RELEVANCE = 0.5  # ρ = exp(RELEVANCE · z)
ABOUT_WEIGHT = 10.0
# entity → passage ∝ exp(LIKENESS · d / max d + RESIDUAL · r)
LIKENESS = 0.5
RESIDUAL = 1.0


@dataclass(slots=True)
class Vicinity:
    """Passages `seeds` are read whole (`links`, `texts`); of others only the ties are known."""

    passages: list[str] = field(default_factory=list)
    seeds: list[str] = field(default_factory=list)
    links: dict[str, ChunkLinks] = field(default_factory=dict)
    texts: dict[str, Chunk] = field(default_factory=dict)
    entities: dict[str, EntityLinks] = field(default_factory=dict)
    ties: list[Tie] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)  # relation of a seed -> z-score
    late: int = 0


@dataclass(frozen=True, slots=True)
class Around:
    """What the vicinity is built around. `links` and `facts` are entity keys, best first."""

    direct: Mapping[str, float]
    residual: Mapping[str, float]
    links: Sequence[str]
    facts: Sequence[str]
    known: Mapping[str, EntityLinks]  # of both
    dense: Vector
    sparse: Sparse
    documents: Sequence[str] | None
    passages: int  # in the workspace


async def read_vicinity(workspace: Workspace, around: Around) -> Vicinity:
    near = Vicinity(seeds=seeds(around))
    links, chunks = await asyncio.gather(
        workspace.graph.chunk_links(near.seeds), workspace.graph.chunks(near.seeds)
    )
    near.links = {one.chunk_id: one for one in links}
    near.texts = {chunk.id: chunk for chunk in chunks}
    near.seeds = [key for key in near.seeds if key in near.links and key in near.texts]
    own = _own_entities(near, around)
    late = late_spans((id, near.texts[id].text, near.links[id].entities) for id in near.seeds)
    facts = _facts(near)
    wanted = sorted({key for keys in late.values() for key in keys} | set(own))
    titled, (dense, sparse) = await asyncio.gather(
        workspace.graph.find(wanted, about=True),
        workspace.vectors.search(
            [
                by_meaning(Kind.RELATION, max(1, len(facts)), around.dense, within=facts),
                VectorQuery(Kind.RELATION, max(1, len(facts)), sparse=around.sparse, within=facts),
            ]
        ),
    )
    near.facts = fact_scores(facts, dense, sparse)
    late_keys = {
        passage: {titled[key].key for key in keys if key in titled}
        for passage, keys in late.items()
    }
    keys = [*own, *sorted({key for found in late_keys.values() for key in found} - set(own))]
    aliases = {key: titled[key].key for key in own if key in titled and titled[key].key != key}
    rows = await workspace.graph.entity_links(
        list(dict.fromkeys([*keys[:MOST_ENTITIES], *aliases.values()])),
        chunks=READ_MENTIONS + 1, about=READ_ABOUT, documents=around.documents,
    )  # fmt: skip
    read = {row.key: row for row in rows if row.chunks or row.about}
    _join_aliases(read, aliases)
    near.entities = {key: read[key] for key in keys[:MOST_ENTITIES] if key in read}
    _expand(near, around)
    near.ties = _ties(near, around, late_keys)
    return near


def subjects(near: Vicinity, mass: Mapping[str, float]) -> dict[str, float]:
    """By passage, the mass of the heaviest entity that it is about. Several passages about one
    thing share its mass in the walk; each is as much about it as if it were the only one."""
    inside = set(near.passages)
    found: dict[str, float] = {}
    for key, row in near.entities.items():
        for passage in inside.intersection(row.about):
            found[passage] = max(found.get(passage, 0.0), mass.get(key, 0.0))
    return found


# --- which passages are read whole ---------------------------------------------------------------


def seeds(around: Around) -> list[str]:
    """Best by direct score, then those about or mentioning a link, then about a fact's entity."""
    d = around.direct
    found = _best(d, d, DIRECT_SEEDS)
    for key in around.links:
        if row := around.known.get(key):
            found += _best(row.about, d, ABOUT_SEEDS)
            found += _best(row.chunks, d, MENTION_SEEDS)
    for key in around.facts:
        if row := around.known.get(key):
            found += _best(row.about, d, ABOUT_SEEDS)
    return list(dict.fromkeys(found))[:MOST_SEEDS]


def _best(ids: Iterable[str], direct: Mapping[str, float], limit: int) -> list[str]:
    return sorted(ids, key=lambda id: (-direct.get(id, 0.0), id))[:limit]


def _own_entities(near: Vicinity, around: Around) -> list[str]:
    own = dict.fromkeys([*around.links, *around.facts])
    for passage in near.seeds:
        links = near.links[passage]
        own.update(dict.fromkeys([*links.about, *links.entities]))
    return list(own)


# --- relevance of mentions -----------------------------------------------------------------------


def _facts(near: Vicinity) -> list[str]:
    facts = dict.fromkeys(key for passage in near.seeds for key in near.links[passage].relations)
    return list(facts)[:MOST_FACTS]


def fact_scores(
    facts: Sequence[str], dense: Sequence[Hit], sparse: Sequence[Hit]
) -> dict[str, float]:
    """z(dense) + 0.5·z(sparse), clipped; facts that a search does not return score lowest there."""
    legs = []
    for hits in (dense, sparse):
        scores = {hit.key: hit.score for hit in hits}
        floor = min(0.0, min(scores.values(), default=0.0))
        legs.append(standardised({key: scores.get(key, floor) for key in facts}))
    return {
        key: max(-MAX_Z, min(MAX_Z, legs[0][key] + FACT_SPARSE * legs[1][key])) for key in facts
    }


def _relevance(near: Vicinity) -> dict[tuple[str, str], float]:
    """ρ by passage and entity, of the best fact of the passage that has the entity as an end."""
    best: dict[tuple[str, str], float] = {}
    for passage in near.seeds:
        for key in near.links[passage].relations:
            if key in near.facts:
                for end in relation_ends(key):
                    tie = (passage, end)
                    best[tie] = max(best.get(tie, -MAX_Z), near.facts[key])
    return {tie: math.exp(RELEVANCE * z) for tie, z in best.items()}


# --- growing and tying ---------------------------------------------------------------------------


def _join_aliases(read: dict[str, EntityLinks], aliases: Mapping[str, str]) -> None:
    """A name that no chunk is about, but that is an alias of what some chunks are about."""
    for key, main in aliases.items():
        if key in read and main in read:
            row = read[key]
            read[key] = EntityLinks(row.key, row.name, row.mentions, row.chunks, read[main].about)


def _expand(near: Vicinity, around: Around) -> None:
    """Passages about each entity, then mentions of those that are no hubs, the rarest first."""
    d = around.direct
    room = MOST_NODES - len(near.entities)
    kept = dict.fromkeys(near.seeds[:room])
    rows = sorted(near.entities.values(), key=lambda row: (row.mentions, row.key))
    for row in rows:
        kept.update(dict.fromkeys(_best(row.about, d, ABOUT_SEEDS)))
    for row in rows:
        if len(kept) >= room:
            break
        if row.mentions <= READ_MENTIONS:
            kept.update(dict.fromkeys(_best(row.chunks, d, MENTIONS_AROUND)))
    near.passages = list(kept)[:room]


def _ties(near: Vicinity, around: Around, late: Mapping[str, set[str]]) -> list[Tie]:
    inside = set(near.passages)
    about: defaultdict[str, set[str]] = defaultdict(set)
    mentioned: defaultdict[str, set[str]] = defaultdict(set)
    for key, row in near.entities.items():
        about[key].update(inside.intersection(row.about))
        mentioned[key].update(inside.intersection((*row.chunks, *row.about)))
    for passage in near.seeds:
        if passage in inside:
            for key in near.links[passage].entities:
                mentioned[key].add(passage)
            for key in near.links[passage].about:
                mentioned[key].add(passage)
                about[key].add(passage)
    d = around.direct
    top = max(d.values(), default=0.0) or 1.0
    likeness = {
        passage: math.exp(
            LIKENESS * d.get(passage, 0.0) / top + RESIDUAL * around.residual.get(passage, 0.0)
        )
        for passage in inside
    }
    relevance = _relevance(near)
    ties: list[Tie] = []
    for key, row in near.entities.items():
        rarity = idf(row.mentions, around.passages)
        for passage in mentioned[key]:
            weight = ABOUT_WEIGHT if passage in about[key] else 1.0
            ties.append(
                Tie(
                    passage, key,
                    relevance.get((passage, key), 1.0) * rarity, weight * likeness[passage],
                )
            )  # fmt: skip
    return ties + _late_ties(near, around, late, mentioned)


def _late_ties(
    near: Vicinity,
    around: Around,
    late: Mapping[str, set[str]],
    mentioned: Mapping[str, set[str]],
) -> list[Tie]:
    """From the passage to the entity only, weighed by how common the words are in text: a page
    "Film" may be mentioned by itself alone while the word stands everywhere."""
    inside = set(near.passages)
    texts = [near.texts[passage].text for passage in near.seeds]
    length = sum(len(text.split()) for text in texts) / max(1, len(texts))
    ties: list[Tie] = []
    for passage, keys in late.items():
        for key in keys:
            row = near.entities.get(key)
            if row is None or not row.about or passage not in inside or passage in mentioned[key]:
                continue
            common = expected_passages(key, around.passages, length)
            ties.append(Tie(passage, key, idf(max(row.mentions, common), around.passages), 0.0))
    near.late = len(ties)
    return ties
