"""Questions with what is known to answer them, as pools of the service: what is trained on.

A *bag* is a set of relations of which one at least should rank high: those that one gold passage
supports, or a single gold relation. Pools come from the code that answers questions.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.domain import Question, Relation, relation_ends, relation_key
from app.names import key
from app.ports import Models, Workspace
from app.query.anchored.features import View
from app.query.anchored.mode import Gathered, gather
from app.query.anchored.scoring import view_of
from app.query.found import Clock

Ints = NDArray[np.int64]
CHUNKS = 16  # of a relation, as at run time
_VIEW = tuple(field.name for field in fields(View))


@dataclass(frozen=True, slots=True)
class Example:
    """`support` (n, 2): row of a relation, number of a chunk that states it; `gold`: numbers of the
    gold chunks, -1 for those outside the pool."""

    id: str
    view: View
    bags: tuple[Ints, ...]
    support: Ints
    gold: Ints


# --- from a workspace ----------------------------------------------------------------------------


def read_questions(path: Path) -> list[dict[str, Any]]:
    """JSON lines, plain or gzip: `question`, and `gold_passage_ids` (documents) or `gold_relations`
    (pairs of names)."""
    opening = gzip.open if path.suffix == ".gz" else open
    with opening(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


async def of_question(
    workspace: Workspace, models: Models, row: Mapping[str, Any], question: Question
) -> Example | None:
    """None where the pool is empty."""
    gathered = await gather(workspace, models, question, Clock())
    if gathered is None:
        return None
    if pairs := row.get("gold_relations"):
        wanted = [relation_key(key(one), key(other)) for one, other in pairs]
        return of_relations(str(row["id"]), gathered, wanted)
    return await _of_documents(workspace, gathered, str(row["id"]), row["gold_passage_ids"])


def of_relations(id: str, gathered: Gathered, wanted: Iterable[str]) -> Example:
    view, _ = view_of(gathered.pool, gathered.cosines)
    rows = {relation: row for row, relation in enumerate(gathered.pool.relations)}
    keys = sorted(set(wanted))
    bags = tuple(np.array([rows[one]]) for one in keys if one in rows)
    own = np.arange(len(rows))
    gold = np.array([rows.get(one, -1) for one in keys], np.int64)
    return Example(id, view, bags, np.stack([own, own], axis=1), gold)


async def _of_documents(
    workspace: Workspace, gathered: Gathered, id: str, documents: Sequence[str]
) -> Example:
    view, _ = view_of(gathered.pool, gathered.cosines)
    rows = {relation: row for row, relation in enumerate(gathered.pool.relations)}
    stated = await workspace.graph.relation_chunks(list(rows), per_relation=CHUNKS)
    numbers: dict[str, int] = {}
    support = [
        (rows[relation], numbers.setdefault(chunk, len(numbers)))
        for relation, chunks in stated.items()
        for chunk in chunks
    ]
    bags, gold = [], []
    for document in documents:
        by = await workspace.graph.relation_chunks(
            list(rows), per_relation=CHUNKS, documents=[document]
        )
        if by:
            bags.append(np.array(sorted(rows[relation] for relation in by)))
        chunks = {chunk for its in by.values() for chunk in its}
        gold.append(min((numbers[chunk] for chunk in chunks if chunk in numbers), default=-1))
    return Example(
        id, view, tuple(bags), np.array(support, np.int64).reshape(-1, 2), np.array(gold, np.int64)
    )


# --- made-up questions ---------------------------------------------------------------------------

TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "en": ("what is the {path} of {start}?", "{start}: {path}", "who or what is {path} {start}?"),
    "de": ("was ist {path} von {start}?", "{start}: {path}"),
    "fr": ("quel est {path} de {start} ?", "{start} : {path}"),
    "es": ("¿cuál es {path} de {start}?", "{start}: {path}"),
    "zh": ("{start}的{path}是什么?", "{start}: {path}"),
}
_OF = {"en": " of the ", "de": " von ", "fr": " de ", "es": " de ", "zh": "的"}
LONGEST_WALK = 3


async def made_up(
    workspace: Workspace, models: Models, starts: Sequence[str], *, count: int, seed: int
) -> list[Example]:
    """Walks of one to three relations from these entities, asked for by the keywords of the
    relations and the name of the start; the end is never named. Hubs are taken rarely."""
    dice = random.Random(seed)
    made: list[Example] = []
    for number in range(4 * count if starts else 0):
        if len(made) == count:
            break
        walk = await _walk(workspace, dice, dice.choice(starts))
        if walk is None:
            continue
        text = _asked(dice, *walk)
        gathered = await gather(workspace, models, Question(text), Clock())
        if gathered is None:
            continue
        example = of_relations(f"walk-{seed}-{number}", gathered, [one.key for one in walk[1]])
        if len(example.bags) == len(walk[1]):
            made.append(example)
    return made


async def _walk(
    workspace: Workspace, dice: random.Random, start: str
) -> tuple[str, list[Relation]] | None:
    here, walked, names = start, [], {start}
    shown = ""
    for _ in range(dice.randint(1, LONGEST_WALK)):
        near = await workspace.graph.relations_of([here], per_entity=24)
        usable = [
            one for one in near
            if one.keywords and not names.issuperset(relation_ends(one.key))
        ]  # fmt: skip
        if not usable:
            break
        others = [other_end(one, here) for one in usable]
        degrees = {one.key: one.degree for one in await workspace.graph.entities(others)}
        weights = [1 / max(1, degrees.get(other, 1)) ** 0.5 for other in others]
        [step] = dice.choices(usable, weights)
        shown = shown or (step.source_name if step.source == here else step.target_name)
        walked.append(step)
        here = other_end(step, here)
        names.add(here)
    return (shown, walked) if walked else None


def other_end(relation: Relation, end: str) -> str:
    return relation.target if relation.source == end else relation.source


def _asked(dice: random.Random, start: str, walked: Sequence[Relation]) -> str:
    language = dice.choice(["en", "en", "en", *TEMPLATES])
    words = [dice.choice(one.keywords) for one in walked]
    template = dice.choice(TEMPLATES[language])
    return template.format(start=start, path=_OF[language].join(reversed(words)))


# --- noise ---------------------------------------------------------------------------------------

LOST_NAMES, LOST_ANCHORS, FLIPPED, WRONG_TOPICS = 0.3, 0.2, 0.5, 3


def noisy(example: Example, dice: np.random.Generator) -> Example:
    """As if linking had failed or found too much, and with ends swapped: weights must not lean on
    what a workspace may not have."""
    view = example.view
    topics, names = view.topics, view.names
    if dice.random() < LOST_NAMES:
        topics, names = topics[names[topics] == 0], np.zeros_like(names)
    wrong = dice.integers(0, view.nodes, int(dice.integers(0, WRONG_TOPICS + 1)))
    anchors = view.anchors & (dice.random(len(view.anchors)) >= LOST_ANCHORS)
    flip = dice.random() < FLIPPED
    head, tail = (view.tail, view.head) if flip else (view.head, view.tail)
    changed = replace(
        view, head=head, tail=tail, anchors=anchors, names=names,
        topics=np.unique(np.concatenate([topics, wrong])),
    )  # fmt: skip
    return replace(example, view=changed)


def smaller(example: Example, most: int) -> Example:
    """The first relations of the pool and all of the bags: cheaper steps, the same structure near
    the places to start from."""
    view = example.view
    if len(view.head) <= most:
        return example
    gold = np.unique(np.concatenate([*example.bags, np.zeros(0, np.int64)]))
    rows = np.unique(np.concatenate([np.arange(most), gold]))
    nodes = np.unique(np.concatenate([view.head[rows], view.tail[rows], view.topics]))
    return replace(
        example,
        view=View(
            np.searchsorted(nodes, view.head[rows]), np.searchsorted(nodes, view.tail[rows]),
            np.searchsorted(nodes, view.topics), view.anchors[rows], view.relation[rows],
            view.themes[rows], view.entity[nodes], view.names[nodes],
        ),
        bags=tuple(np.searchsorted(rows, bag) for bag in example.bags),
    )  # fmt: skip


# --- files ---------------------------------------------------------------------------------------


def save(path: Path, examples: Sequence[Example]) -> None:
    arrays: dict[str, Any] = {"ids": np.array([one.id for one in examples], np.str_)}
    for number, one in enumerate(examples):
        for name in _VIEW:
            arrays[f"{number}_{name}"] = getattr(one.view, name)
        lengths = np.array([len(bag) for bag in one.bags], np.int64)
        arrays[f"{number}_bags"] = np.concatenate([*one.bags, np.zeros(0, np.int64)])
        arrays[f"{number}_lengths"] = lengths
        arrays[f"{number}_support"], arrays[f"{number}_gold"] = one.support, one.gold
    np.savez_compressed(path, **arrays)


def load(path: Path) -> list[Example]:
    examples = []
    with np.load(path, allow_pickle=False) as held:
        for number, id in enumerate(held["ids"].tolist()):
            view = View(**{name: held[f"{number}_{name}"] for name in _VIEW})
            cuts = np.cumsum(held[f"{number}_lengths"])[:-1]
            bags = tuple(np.split(held[f"{number}_bags"], cuts)) if len(cuts) + 1 else ()
            if not len(held[f"{number}_lengths"]):
                bags = ()
            examples.append(
                Example(id, view, bags, held[f"{number}_support"], held[f"{number}_gold"])
            )
    return examples
