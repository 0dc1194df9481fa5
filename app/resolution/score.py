"""Two names compared: relation, veto and score."""

from __future__ import annotations

from functools import lru_cache

from app.resolution.model import ASK, MERGE, Name, Pair, Ties
from app.resolution.relations import BASES, RECOGNISED, Relation, Side, relate, side, stated
from app.resolution.spelling import UNSURE
from app.resolution.vetoes import veto

_NOTHING = Ties()
_CAPPED = frozenset(
    {"near_1", "soft_tail", "qualified", "contained", "mixed", "none"}
)  # these never merge by themselves
_BELOW_MERGE = MERGE - 1


def compare(one: Name, other: Name, ties: Ties = _NOTHING) -> Pair:
    """The pair of two names, whichever comes first. The score does not yet know how many other
    names the shorter form may stand for."""
    first, second = sorted((one, other), key=lambda name: (name.key, name.form))
    a, b = _side(first), _side(second)
    relation = relate(a, b)
    against = veto(a.parsed, b.parsed)
    base = _base(relation, a, b, ties)
    features: dict[str, float | str] = {"sure": relation.sure} if relation.sure else {}
    score = base
    if relation.name != "known":
        for name, points in _adjustments(relation, a, b, ties).items():
            features[name] = points
            score += points
        score = _capped(relation, a, b, ties, score)
    return Pair(
        first.key, second.key, relation.name, base, round(min(100.0, max(0.0, score)), 2),
        against, features, relation.leaf,
    )  # fmt: skip


def recorded(pair: Pair) -> bool:
    """Whether a pair is worth keeping: nothing speaks against it and something for it."""
    return not pair.veto and (pair.relation in RECOGNISED or pair.score >= ASK)


@lru_cache(maxsize=1 << 15)
def _side(name: Name) -> Side:
    return side(name)


def _base(relation: Relation, a: Side, b: Side, ties: Ties) -> float:
    base = BASES[relation.name]
    if relation.name == "script":
        return base + 80 * ties.names if ties.names is not None else base
    if relation.name in ("contained", "mixed", "none") and ties.names is not None:
        return 100 * ties.names - {"contained": 45, "mixed": 46, "none": 40}[relation.name]
    if relation.name in ("acronym", "defined"):
        return _short_base(relation, a, b)
    if relation.name == "chinese":
        return base + (6 if relation.sure > 0.6 else 0)
    if relation.name == "typo":
        return base + (10 if relation.sure > 0.8 else 0)
    if relation.name == "middle" and not relation.sure:
        return base - 16
    return base


def _short_base(relation: Relation, a: Side, b: Side) -> float:
    short, long = (a, b) if relation.leaf == a.name.key else (b, a)
    if short.parsed.world >= 0 and long.parsed.world < 0:
        return 58.0  # the world knows it as another thing's
    if relation.name == "defined":
        return BASES["defined"]
    if len(short.parsed.joined) == 2:
        return 46.0
    return BASES["acronym"] + (4 if relation.sure == 1 else 0)


def _adjustments(relation: Relation, a: Side, b: Side, ties: Ties) -> dict[str, float]:
    points: dict[str, float] = {}
    if ties.together or ties.neighbours >= 1 / 3:
        points["together"] = 8.0
    if ties.descriptions is not None:
        points["descriptions"] = round(20 * (ties.descriptions - 0.45), 2)
    if a.kind and b.kind:
        points["kind"] = 4.0 if a.kind == b.kind else -12.0
    persons = a.kind == b.kind == "person"
    if persons and relation.name in ("partial", "middle"):
        points["persons"] = 8.0
    if persons and ties.together and relation.name == "acronym" and a.person != b.person:
        points["persons"] = 8.0
    if relation.name != "defined" and stated(a, b):
        points["stated"] = 8.0
    if ties.related and relation.name not in ("acronym", "near", "defined"):
        points["related"] = -20.0
    return points


def _capped(relation: Relation, a: Side, b: Side, ties: Ties, score: float) -> float:
    """Some relations only ask, and some need a passage (or neighbours) that names both: somewhere
    there is always another Smith. A passage that has both Charles Pinckney and Charles Cotesworth
    Pinckney speaks of two."""
    near = ties.together or ties.neighbours >= 1 / 3
    persons = a.kind == b.kind == "person"
    asks = (
        relation.name in _CAPPED
        or (relation.name == "partial" and not (persons and near))
        or relation.name == "middle"
        or (relation.name == "typo" and relation.sure <= UNSURE)
        or (relation.name == "initials" and not (relation.sure or near))
        or (a.kind and b.kind and a.kind != b.kind and "person" in (a.kind, b.kind))
    )
    return min(score, _BELOW_MERGE) if asks else score
