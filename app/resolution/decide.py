"""Which names of a connected set are one thing: clusters from pairs, rulings and vetoes.

A function of the sets it is given: neither the order of names and pairs nor how often a name was
mentioned changes a cluster. Nothing is chained: a name joins a cluster by the cluster's centre or
by two of its full members, and a short form (leaf) never brings two clusters together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from app.resolution.model import ASK, MAX_MEMBERS, MERGE, Name, Pair, coarse
from app.resolution.relations import alike
from app.resolution.score import compare

_TINY = 3  # a key of two capitals and its mark
Decision = Literal["merge", "ask", "apart"]
Keys = tuple[str, str]

# How many other things a short form may stand for before it scores no more than this. Who of three
# Smiths is meant by "Smith" is not worth a question.
_AMBIGUOUS = {
    "acronym": (1, 58.0), "chinese": (1, 58.0), "initials": (1, 66.0), "middle": (1, 66.0),
    "partial": (2, 48.0), "safe_tail": (1, 66.0), "defined": (1, 66.0), "near": (1, 66.0),
}  # fmt: skip


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


def rivals(pairs: Iterable[Pair], rulings: Mapping[Keys, bool]) -> dict[Keys, int]:
    """For each pair with a leaf, how many other things the same leaf may stand for, by the pairs of
    that leaf alone. Spellings of one long form count once; what was ruled apart does not.

    What a text states outweighs letters that fit: a stated short form has only stated rivals,
    unless it is of two letters (a text may well use PR for what it likes).
    """
    ruled = {_keys(*keys): same for keys, same in rulings.items()}
    of_leaf: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        counts = pair.relation in _AMBIGUOUS and not pair.veto
        if pair.leaf and counts and ruled.get(pair.keys) is not False:
            of_leaf[pair.leaf].append(pair)
    found: dict[Keys, int] = {}
    for leaf, own in of_leaf.items():
        every = [_partner(pair, leaf) for pair in own]
        stated = [_partner(pair, leaf) for pair in own if pair.relation == "defined"]
        for wanted, partners in ((True, stated if len(leaf) > _TINY else every), (False, every)):
            things = _things(partners)
            for pair in own:
                if (pair.relation == "defined") is wanted:
                    found[pair.keys] = things - 1
    return found


def decisions(pairs: Sequence[Pair], rulings: Mapping[Keys, bool]) -> dict[Keys, Decision]:
    """What becomes of every pair; `pairs` hold all of every leaf in them. A short form that fits
    two things equally well joins neither."""
    ruled = {_keys(*keys): same for keys, same in rulings.items()}
    others = rivals(pairs, rulings)
    found: dict[Keys, Decision] = {}
    homes: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.keys in ruled:
            found[pair.keys] = "merge" if ruled[pair.keys] else "apart"
            continue
        found[pair.keys] = decision(pair, others.get(pair.keys, 0))
        if pair.leaf and found[pair.keys] == "merge":
            homes[pair.leaf].append(pair)
    for leaf, own in homes.items():
        best = [pair for pair in own if pair.relation == "defined"] or own
        partners = [_partner(pair, leaf) for pair in best]
        if _things(partners) > 1:
            best = []
        found |= {
            pair.keys: "ask"
            for pair in own
            if pair not in best and (not best or _things([*partners, _partner(pair, leaf)]) > 1)
        }
    return found


def cluster(
    names: Mapping[str, Name], pairs: Sequence[Pair], rulings: Mapping[Keys, bool]
) -> list[frozenset[str]]:
    """The clusters of a closed set of names, in order of their first keys.

    `pairs`: all that are recorded between them; `rulings`: what a user or model decided of two
    keys, in either order (true: one thing). A ruling beats score and veto.
    """
    ruled = {_keys(*keys): same for keys, same in rulings.items()}
    decided = decisions(pairs, ruled)
    edges = sorted(
        (
            pair
            for pair in pairs
            if decided[pair.keys] == "merge" and pair.keys not in ruled
            and pair.one in names and pair.other in names
        ),
        key=lambda pair: (-pair.score, pair.keys),
    )  # fmt: skip
    groups = _Groups(names, ruled, edges)
    for keys in sorted(keys for keys, same in ruled.items() if same and names.keys() >= set(keys)):
        groups.rule(*keys)
    for pair in edges:
        if not pair.leaf:
            groups.join(pair.one, pair.other)
    _join_leaves(groups, [pair for pair in edges if pair.leaf])
    return sorted(groups.all(), key=min)


def _join_leaves(groups: _Groups, edges: Sequence[Pair]) -> None:
    """Each short form joins the one cluster that it stands for. Longer ones go first, so that
    "J. Smith" is with "John Smith" before "Smith" looks."""
    of_leaf: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in edges:
        of_leaf[pair.leaf].append(pair)
    for leaf in sorted(of_leaf, key=lambda key: (-len(key.split()), -len(key), key)):
        homes = {groups.of(_partner(pair, leaf)) for pair in of_leaf[leaf]}
        if len(homes) == 1 and not groups.ruled(leaf):
            for pair in of_leaf[leaf]:
                groups.join(leaf, _partner(pair, leaf), leaf=leaf)


def _things(keys: Sequence[str]) -> int:
    """How many things the long forms name, spellings of one taken together."""
    groups: list[list[str]] = []
    for key in sorted(set(keys)):
        akin = [group for group in groups if any(alike(key, other) for other in group)]
        groups = [group for group in groups if group not in akin]
        groups.append([key, *(other for group in akin for other in group)])
    return len(groups)


def _partner(pair: Pair, key: str) -> str:
    return pair.other if pair.one == key else pair.one


def _keys(one: str, other: str) -> Keys:
    return (one, other) if one < other else (other, one)


# --- clusters in the making ----------------------------------------------------------------------


class _Groups:
    """Disjoint sets of names that remember why two of them may not be joined."""

    def __init__(
        self, names: Mapping[str, Name], ruled: Mapping[Keys, bool], edges: Iterable[Pair]
    ) -> None:
        self._names = names
        self._ruled = ruled
        self._apart = {keys for keys, same in ruled.items() if not same}
        self._group: dict[str, frozenset[str]] = {key: frozenset((key,)) for key in names}
        self._links: defaultdict[str, set[str]] = defaultdict(set)
        self._leaves: set[str] = set()
        self._vetoed: dict[Keys, bool] = {}
        for one, other in [
            *(pair.keys for pair in edges),
            *(k for k, same in ruled.items() if same),
        ]:
            self._links[one].add(other)
            self._links[other].add(one)

    def of(self, key: str) -> frozenset[str]:
        return self._group[key]

    def all(self) -> set[frozenset[str]]:
        return set(self._group.values())

    def ruled(self, key: str) -> bool:
        """Whether a ruling has put the name where it belongs."""
        return any(key in keys and same for keys, same in self._ruled.items())

    def rule(self, one: str, other: str) -> None:
        """Joins what a ruling joins, unless another ruling keeps two of the members apart."""
        mine, theirs = self._group[one], self._group[other]
        if mine is not theirs and not any(_keys(a, b) in self._apart for a in mine for b in theirs):
            self._put(mine | theirs)

    def join(self, one: str, other: str, *, leaf: str = "") -> None:
        union = self._group[one] | self._group[other]
        if union == self._group[one] or not self._holds(union, leaf) or not self._fits(one, other):
            return
        if leaf:
            self._leaves.add(leaf)
        self._put(union)

    def _put(self, group: frozenset[str]) -> None:
        for key in group:
            self._group[key] = group

    def _holds(self, union: frozenset[str], leaf: str) -> bool:
        """Whether every full member, and the leaf that is to join, is linked to the centre or to
        two others: so that no chain of likenesses ends far from where it began."""
        members = union - self._leaves
        centre = self._centre(members - {leaf} or members)
        return all(
            key == centre or centre in self._links[key] or len(self._links[key] & members) > 1
            for key in members
        )

    def _centre(self, members: frozenset[str]) -> str:
        """The member with most links of its own; the longest form among equals."""
        return min(
            members, key=lambda key: (-len(self._links[key]), -len(self._names[key].form), key)
        )

    def _fits(self, one: str, other: str) -> bool:
        mine, theirs = self._group[one], self._group[other]
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
