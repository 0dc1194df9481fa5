"""Which names of a connected set are one thing: clusters from pairs, rulings and vetoes.

A function of the sets it is given: neither the order of names and pairs nor how often a name was
mentioned changes a cluster. Nothing is chained: a name joins a cluster by the cluster's centre or
by two of its full members, and a short form (leaf) never brings two clusters together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.resolution.model import ASK, MAX_MEMBERS, MERGE, Name, Pair, coarse
from app.resolution.score import compare

Decision = Literal["merge", "ask", "apart"]
Keys = tuple[str, str]

# What a short form scores at most when it may stand for something else too, and how many other
# things it takes. One person of three called Smith is meant by no "Smith" in particular.
_AMBIGUOUS = {
    "acronym": (1, 58.0), "chinese": (1, 58.0), "initials": (1, 66.0), "middle": (1, 66.0),
    "partial": (2, 58.0), "safe_tail": (1, 66.0), "defined": (1, 66.0),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settled:
    """`clusters`: every name in exactly one. `rivals`: for each leaf and relation, the other
    clusters that it may stand for. `decisions`: what became of every pair."""

    clusters: tuple[frozenset[str], ...]
    rivals: Mapping[Keys, int]
    decisions: Mapping[Keys, Decision]


def decision(pair: Pair, rivals: int = 0) -> Decision:
    """What a pair comes to where its short form may stand for `rivals` other things."""
    score = final_score(pair, rivals)
    return "merge" if score >= MERGE else "ask" if score >= ASK else "apart"


def final_score(pair: Pair, rivals: int = 0) -> float:
    """The score once it is known how many others the short form may stand for; 0 under a veto."""
    if pair.veto:
        return 0.0
    many, most = _AMBIGUOUS.get(pair.relation, (0, 100.0))
    return min(pair.score, most) if pair.leaf and many and rivals >= many else pair.score


def cluster(
    names: Mapping[str, Name], pairs: Sequence[Pair], rulings: Mapping[Keys, bool]
) -> list[frozenset[str]]:
    """The clusters of a closed set of names, in order of their first keys.

    `pairs`: all that are recorded between them; `rulings`: what a user or model decided of two
    keys, in either order (true: one thing). A ruling beats score and veto.
    """
    return list(settle(names, pairs, rulings).clusters)


def settle(
    names: Mapping[str, Name], pairs: Sequence[Pair], rulings: Mapping[Keys, bool]
) -> Settled:
    """Clusters together with how they came about."""
    ruled = {_keys(*keys): same for keys, same in rulings.items()}
    known = {pair.keys: pair for pair in pairs if pair.one in names and pair.other in names}
    known = dict(sorted(known.items()))
    groups = _Groups(names, ruled)
    for keys in sorted(keys for keys, same in ruled.items() if same and set(keys) <= set(names)):
        groups.rule(*keys)
    _join_full(groups, known, ruled)
    rivals = _join_leaves(groups, known, ruled)
    decisions = {
        keys: _ruled(ruled, keys) or decision(pair, rivals.get(keys, 0))
        for keys, pair in known.items()
    }
    clusters = sorted(groups.all(), key=min)
    return Settled(tuple(clusters), rivals, decisions)


def _ruled(ruled: Mapping[Keys, bool], keys: Keys) -> Decision | None:
    same = ruled.get(keys)
    return None if same is None else "merge" if same else "apart"


def _keys(one: str, other: str) -> Keys:
    return (one, other) if one < other else (other, one)


# --- full members --------------------------------------------------------------------------------


def _join_full(groups: _Groups, known: Mapping[Keys, Pair], ruled: Mapping[Keys, bool]) -> None:
    """Joins along the edges between full forms, best first, by the clusters' centres."""
    edges = [
        pair
        for keys, pair in known.items()
        if not pair.leaf and keys not in ruled and decision(pair) == "merge"
    ]
    groups.link(edges)
    for pair in sorted(edges, key=lambda pair: (-pair.score, pair.keys)):
        groups.join(pair.one, pair.other)


# --- leaves --------------------------------------------------------------------------------------


def _join_leaves(
    groups: _Groups, known: Mapping[Keys, Pair], ruled: Mapping[Keys, bool]
) -> dict[Keys, int]:
    """Each short form joins the one cluster it can only stand for; returns rivals by pair.

    Longer short forms go first, so that "J. Smith" is with "John Smith" before "Smith" looks.
    """
    of_leaf: defaultdict[str, list[Pair]] = defaultdict(list)
    for keys, pair in known.items():
        if pair.leaf and not pair.veto and ruled.get(keys) is not False:
            of_leaf[pair.leaf].append(pair)
    rivals: dict[Keys, int] = {}
    for leaf in sorted(of_leaf, key=lambda key: (-len(key.split()), -len(key), key)):
        found = _rivals(groups, leaf, of_leaf[leaf])
        rivals |= found
        if any(leaf in keys and same for keys, same in ruled.items()):
            continue  # a ruling has put it where it belongs
        edges = [
            replace(pair, score=score)
            for pair in of_leaf[leaf]
            if pair.keys not in ruled
            and (score := final_score(pair, found.get(pair.keys, 0))) >= MERGE
        ]
        groups.link(edges)
        homes = {groups.of(_partner(pair, leaf)) for pair in edges} - {groups.of(leaf)}
        if len(homes) == 1:
            for pair in sorted(edges, key=lambda pair: (-pair.score, pair.keys)):
                groups.join(leaf, _partner(pair, leaf), leaf=leaf)
    return rivals


def _rivals(groups: _Groups, leaf: str, pairs: Sequence[Pair]) -> dict[Keys, int]:
    """For each pair of a leaf, the other clusters that the same leaf may stand for.

    What a text states outweighs letters that fit: a stated short form has only stated rivals.
    """
    stated = {groups.of(_partner(pair, leaf)) for pair in pairs if pair.relation == "defined"} - {
        groups.of(leaf)
    }
    fitting = {groups.of(_partner(pair, leaf)) for pair in pairs if pair.relation in _AMBIGUOUS}
    fitting -= {groups.of(leaf)}
    found: dict[Keys, int] = {}
    for pair in pairs:
        against = stated if pair.relation == "defined" else fitting
        others = len(against - {groups.of(_partner(pair, leaf))})
        if others:
            found[pair.keys] = others
    return found


def _partner(pair: Pair, key: str) -> str:
    return pair.other if pair.one == key else pair.one


# --- clusters in the making ----------------------------------------------------------------------


class _Groups:
    """Disjoint sets of names that remember why two of them may not be joined."""

    def __init__(self, names: Mapping[str, Name], ruled: Mapping[Keys, bool]) -> None:
        self._names = names
        self._ruled = ruled
        self._apart = {keys for keys, same in ruled.items() if not same}
        self._group: dict[str, frozenset[str]] = {key: frozenset((key,)) for key in names}
        self._links: defaultdict[str, set[str]] = defaultdict(set)
        self._leaves: set[str] = set()
        self._vetoed: dict[Keys, bool] = {}

    def of(self, key: str) -> frozenset[str]:
        return self._group[key]

    def all(self) -> set[frozenset[str]]:
        return set(self._group.values())

    def link(self, edges: Iterable[Pair]) -> None:
        for pair in edges:
            self._links[pair.one].add(pair.other)
            self._links[pair.other].add(pair.one)

    def rule(self, one: str, other: str) -> None:
        """Joins what a ruling joins, unless another ruling keeps two of the members apart."""
        mine, theirs = self._group[one], self._group[other]
        if mine is not theirs and not any(_keys(a, b) in self._apart for a in mine for b in theirs):
            self._put(mine | theirs)

    def join(self, one: str, other: str, *, leaf: str = "") -> None:
        mine, theirs = self._group[one], self._group[other]
        if mine is theirs or not self._meets(mine, theirs) or not self._fits(mine, theirs):
            return
        if leaf:
            self._leaves.add(leaf)
        self._put(mine | theirs)

    def _put(self, group: frozenset[str]) -> None:
        for key in group:
            self._group[key] = group

    def _meets(self, mine: frozenset[str], theirs: frozenset[str]) -> bool:
        """Whether the centres are linked, or one side's is with two full members of the other."""
        for one, other in ((mine, theirs), (theirs, mine)):
            linked = self._links[self._centre(one)] & (other - self._leaves)
            if self._centre(other) in linked:
                return True
            if len(one) == 1 and len(linked) > 1:
                return True
        return False

    def _centre(self, group: frozenset[str]) -> str:
        """The member with most links of its own; the longest form among equals."""
        full = group - self._leaves or group
        return min(full, key=lambda key: (-len(self._links[key]), -len(self._names[key].form), key))

    def _fits(self, mine: frozenset[str], theirs: frozenset[str]) -> bool:
        if len(mine) + len(theirs) > MAX_MEMBERS:
            return False
        kinds = {coarse(self._names[key].kind) for key in mine | theirs} - {""}
        if "person" in kinds and len(kinds) > 1:
            return False
        return not any(self._barred(a, b) for a in mine for b in theirs)

    def _barred(self, one: str, other: str) -> bool:
        keys = _keys(one, other)
        if keys in self._ruled:
            return not self._ruled[keys]
        if keys not in self._vetoed:
            self._vetoed[keys] = bool(compare(self._names[one], self._names[other]).veto)
        return self._vetoed[keys]
