"""From scored relations to what is shown: whole chains, entities, and the chunks behind them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.domain import Hit
from app.query.ranking import best_first

BRIDGES = 0.25  # relations that may be added, as a share of those kept
NEAREST = 3  # chunks of a relation that count
SECOND = 0.1
CLOSENESS = 1e-3  # between chunks of the same relation, the nearer to the question goes first

Ends = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows of relations: the best ones, and those added to tie them to a topic."""

    rows: tuple[int, ...]
    bridges: tuple[int, ...] = ()

    @property
    def all(self) -> tuple[int, ...]:
        return (*self.rows, *self.bridges)


def keep(ends: Ends, scores: Sequence[float], topics: Sequence[int], top_k: int) -> Kept:
    """The best relations, and for those that no kept ones tie to a topic the best path of at most
    two further relations that does."""
    order = sorted(range(len(scores)), key=lambda row: (-scores[row], row))
    rows = order[:top_k]
    bridges: list[int] = []
    room = int(BRIDGES * len(rows))
    tied = _tied(ends, rows, topics)
    loose = [row for row in rows if tied.isdisjoint(ends[row])] if topics else []
    if not loose or not room:
        return Kept(tuple(rows))
    near, last = _neighbours(ends, range(len(ends))), _last_steps(ends, scores, tied)
    for row in loose:
        path = [] if not tied.isdisjoint(ends[row]) else _bridge(near, scores, last, ends[row])
        if path and len(bridges) + len(path) <= room:
            bridges += path
            tied = _tied(ends, [*rows, *bridges], topics)
            last = _last_steps(ends, scores, tied)
    return Kept(tuple(rows), tuple(bridges))


def by_chain(kept: Kept, ends: Ends, scores: Sequence[float], topics: Sequence[int]) -> list[int]:
    """Best first, but each behind the relations that lead to it from a topic."""
    leads = _leads(ends, kept.all, scores, topics)
    shown: dict[int, None] = {}
    for row in sorted(kept.all, key=lambda row: (-scores[row], row)):
        chain = [row]
        near = [leads[end] for end in ends[row] if end in leads]
        step = min(near, default=None)
        while step is not None:
            _, lead, behind = step
            if lead is None:
                break
            chain.append(lead)
            step = leads[behind]
        shown.update(dict.fromkeys(reversed(chain)))
    return list(shown)


def entity_scores(rows: Sequence[int], ends: Ends, scores: Mapping[int, float]) -> dict[int, float]:
    """Sum of the best two scores of kept relations, by entity row."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for row in rows:
        for end in set(ends[row]):
            found[end].append(scores[row])
    return {end: sum(sorted(its, reverse=True)[:2]) for end, its in found.items()}


def chunk_hits(
    scores: Mapping[str, float], asserted: Mapping[str, Sequence[str]], near: Mapping[str, float]
) -> list[Hit]:
    """Chunks by the best relation that they support, and a little by the second best. Of many
    chunks of a relation the three nearest to the question count."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for relation, chunks in asserted.items():
        closest = sorted(chunks, key=lambda chunk: (-near.get(chunk, -1.0), chunk))
        for chunk in closest[:NEAREST]:
            found[chunk].append(scores[relation])
    total = {}
    for chunk, its in found.items():
        best, *rest = sorted(its, reverse=True)
        total[chunk] = best + SECOND * (rest[0] if rest else 0.0) + CLOSENESS * near.get(chunk, 0.0)
    return best_first(total)


def stretched(scores: Sequence[float]) -> list[float]:
    """To [0, 1]; all 1 where nothing varies."""
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    if high - low < 1e-9:
        return [1.0] * len(scores)
    return [(score - low) / (high - low) for score in scores]


def _tied(ends: Ends, rows: Sequence[int], topics: Sequence[int]) -> set[int]:
    """Entities that these relations tie to a topic."""
    near = _neighbours(ends, rows)
    tied, waiting = set(topics), deque(topics)
    while waiting:
        for _, other in near[waiting.popleft()]:
            if other not in tied:
                tied.add(other)
                waiting.append(other)
    return tied


Step = tuple[float, int]  # score and minus row: the greater is better, of equals the first


def _last_steps(ends: Ends, scores: Sequence[float], tied: set[int]) -> dict[int, Step]:
    """Entity that is not tied -> its best relation to one that is."""
    last: dict[int, Step] = {}
    for row, (head, tail) in enumerate(ends):
        if (head in tied) != (tail in tied):
            here, step = (tail if head in tied else head), (scores[row], -row)
            last[here] = max(last.get(here, step), step)
    return last


def _bridge(
    near: Mapping[int, Sequence[tuple[int, int]]], scores: Sequence[float],
    last: Mapping[int, Step], to: tuple[int, int],
) -> list[int]:  # fmt: skip
    """The path of at most two relations to a tied entity whose worse one is best; a single relation
    before two."""
    direct = [last[end] for end in to if end in last]
    if direct:
        return [-max(direct)[1]]
    first: dict[int, Step] = {}
    for end in set(to):
        for row, middle in near[end]:
            if middle in last and middle not in to:
                step = (scores[row], -row)
                first[middle] = max(first.get(middle, step), step)
    if not first:
        return []
    middle = max(first, key=lambda node: (min(first[node][0], last[node][0]), -node))
    return [-last[middle][1], -first[middle][1]]


def _leads(
    ends: Ends, rows: Sequence[int], scores: Sequence[float], topics: Sequence[int]
) -> dict[int, tuple[int, int | None, int]]:
    """Entity -> hops from a topic, the relation that leads to it, and from where: breadth first,
    better relations before others."""
    near = _neighbours(ends, sorted(rows, key=lambda row: (-scores[row], row)))
    leads: dict[int, tuple[int, int | None, int]] = {topic: (0, None, topic) for topic in topics}
    waiting = deque(topics)
    while waiting:
        here = waiting.popleft()
        for row, other in near[here]:
            if other not in leads:
                leads[other] = (leads[here][0] + 1, row, here)
                waiting.append(other)
    return leads


def _neighbours(ends: Ends, rows: Iterable[int]) -> defaultdict[int, list[tuple[int, int]]]:
    near: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        head, tail = ends[row]
        near[head].append((row, tail))
        near[tail].append((row, head))
    return near
