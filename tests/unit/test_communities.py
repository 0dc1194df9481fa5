"""Dividing a graph into communities, and knowing them again after it changed."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.communities import Changes, Edge, Group, changes, divided
from app.domain import Cluster, Clustering

SMALL = Clustering(levels=3, size=4)


def clique(prefix: str, size: int, weight: float = 5.0) -> list[Edge]:
    names = [f"{prefix}{n}" for n in range(size)]
    return [Edge(one, other, weight) for one, other in combinations(names, 2)]


def chain(*parts: list[Edge]) -> list[Edge]:
    """Groups that hang together by weak ties."""
    bridges = [Edge(left[0].source, right[0].source, 0.1) for left, right in pairwise(parts)]
    return [edge for part in parts for edge in part] + bridges


def tops(groups: list[Group]) -> list[frozenset[str]]:
    return [one.members for one in groups if one.level == 0]


def keyed(groups: list[Group]) -> dict[str, str]:
    return {label: f"key of {label}" for one in groups for label in one.members}


def stored(groups: list[Group], before: list[Cluster] | None = None) -> list[Cluster]:
    """All communities after the groups were put in place of those before."""
    made = changes(groups, keyed(groups), before or [])
    left = {one.id: one for one in before or [] if one.id not in made.drop}
    return list({**left, **{one.id: one for one in made.put}}.values())


def test_nothing_is_divided_into_nothing() -> None:
    assert divided([], SMALL) == []
    assert divided([Edge("a", "a", 1.0), Edge("a", "b", 0.0)], SMALL) == []


def test_what_is_tied_closely_is_together() -> None:
    groups = divided(chain(clique("a", 4), clique("b", 4), clique("c", 4)), SMALL)
    wanted = [frozenset(f"{letter}{n}" for n in range(4)) for letter in "abc"]
    assert sorted(tops(groups), key=min) == wanted


def test_parts_that_nothing_connects_are_divided_by_themselves() -> None:
    graph = chain(clique("a", 5), clique("b", 5), clique("c", 6))
    alone = divided(graph, SMALL)
    beside = divided([*graph, *chain(clique("x", 7), clique("y", 5))], SMALL)
    assert set(tops(alone)) <= set(tops(beside))


def test_what_is_too_large_is_divided_again_down_to_the_last_level() -> None:
    rng = random.Random(3)
    names = [f"n{n}" for n in range(200)]
    graph = [
        Edge(*rng.sample(names[start : start + 20], 2), 1.0)
        for start in range(0, 200, 10)
        for _ in range(60)
        if start + 20 <= 200
    ]
    deep = divided(graph, Clustering(levels=4, size=5))
    levels = {one.level for one in deep}
    assert levels == set(range(max(levels) + 1))
    assert len(levels) > 1
    for one in deep:
        if one.parent is not None:
            above = deep[one.parent]
            assert above.level == one.level - 1
            assert one.members < above.members
    assert max(one.level for one in divided(graph, Clustering(levels=1, size=5))) == 0


def test_what_hangs_on_a_community_by_one_relation_belongs_to_it() -> None:
    graph = chain(clique("a", 5), clique("b", 5))
    hung = [Edge("a1", "x", 0.1), Edge("x", "y", 9.0), Edge("x", "z", 9.0), Edge("b2", "w", 9.0)]
    found = tops(divided([*graph, *hung], SMALL))
    assert {frozenset({*"xyz", *(f"a{n}" for n in range(5))})} <= set(found)
    assert {frozenset({"w", *(f"b{n}" for n in range(5))})} <= set(found)


def test_stars_and_small_trees_are_one_community_and_long_chains_are_not() -> None:
    star = [Edge("hub", f"n{n}", 1.0) for n in range(30)]
    assert [len(one) for one in tops(divided(star, SMALL))] == [31]
    path = [Edge(f"n{n:03}", f"n{n + 1:03}", 1.0) for n in range(100)]
    found = tops(divided(path, SMALL))
    assert sum(map(len, found)) == 101
    assert len(found) > 5
    assert divided(list(reversed(path)), SMALL) == divided(path, SMALL)


def test_one_more_document_moves_little() -> None:
    rng = random.Random(5)
    graph = [
        Edge(f"t{topic}-{one}", f"t{topic}-{other}", 1.0)
        for topic in range(30)
        for one, other in (rng.sample(range(12), 2) for _ in range(30))
    ]
    graph += [
        Edge(f"t{rng.randrange(30)}-{rng.randrange(12)}", f"t{rng.randrange(30)}-0", 0.2)
        for _ in range(40)
    ]
    before = {(one.level, one.members) for one in divided(graph, SMALL)}
    news = [Edge("t3-1", "new", 1.0), Edge("new", "newer", 1.0)]
    after = {(one.level, one.members) for one in divided([*graph, *news], SMALL)}
    assert len(after - before) <= 4, "one for each level, and what hangs with it"


def test_groups_of_a_level_share_no_member_and_parts_make_up_the_whole() -> None:
    groups = divided(chain(*(clique(letter, 6) for letter in "abcdefgh")), SMALL)
    for level in {one.level for one in groups}:
        members = [label for one in groups if one.level == level for label in one.members]
        assert len(members) == len(set(members))
    for place, one in enumerate(groups):
        parts = [other.members for other in groups if other.parent == place]
        assert not parts or frozenset().union(*parts) == one.members


@given(st.randoms(use_true_random=False))
def test_the_order_of_relations_and_of_their_ends_changes_nothing(rng: random.Random) -> None:
    graph = chain(clique("a", 5), clique("b", 7), clique("c", 6))
    mixed = [Edge(e.target, e.source, e.weight) if rng.random() < 0.5 else e for e in graph]
    rng.shuffle(mixed)
    assert divided(mixed, SMALL) == divided(graph, SMALL)


def test_another_process_divides_alike() -> None:
    code = (
        "from tests.unit.test_communities import *\n"
        "graph = chain(*(clique(letter, 9, 1.0) for letter in 'abcdefgh'))\n"
        "print([sorted(one.members) for one in divided(graph, SMALL)])"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(runs) == 1


# --- knowing communities again -------------------------------------------------------------------


def test_equal_groups_change_nothing() -> None:
    groups = divided(chain(clique("a", 6), clique("b", 6)), SMALL)
    assert changes(groups, keyed(groups), stored(groups)) == Changes((), ())


def test_ids_follow_from_level_and_members() -> None:
    groups = divided(chain(clique("a", 6), clique("b", 6)), SMALL)
    assert {one.id for one in stored(groups)} == {one.id for one in stored(list(groups))}
    other = divided(chain(clique("a", 6), clique("c", 6)), SMALL)
    shared = {one.id for one in stored(groups)} & {one.id for one in stored(other)}
    assert shared
    assert shared < {one.id for one in stored(other)}


def test_a_community_that_most_members_stay_in_keeps_its_id() -> None:
    before = stored([Group(0, None, frozenset("abcd")), Group(0, None, frozenset("wxyz"))])
    after = [Group(0, None, frozenset("abcde")), Group(0, None, frozenset("wx"))]
    made = changes(after, keyed(after), before)
    first = next(one for one in before if "key of a" in one.members)
    assert [one.id for one in made.put if "key of a" in one.members] == [first.id]
    second = next(one for one in before if "key of w" in one.members)
    assert made.drop == (second.id,), "half of the members is not most of them"


def test_an_id_is_never_given_twice() -> None:
    first = stored([Group(0, None, frozenset("abc"))])
    grown = [Group(0, None, frozenset("abcde"))]
    second = stored(grown, first)
    assert [one.id for one in second] == [one.id for one in first]
    parted = [Group(0, None, frozenset("abc")), Group(0, None, frozenset("defghijk"))]
    third = stored(parted, second)
    assert len({one.id for one in third}) == 2
    back = [Group(0, None, frozenset("abcde")), Group(0, None, frozenset("fg"))]
    assert len({one.id for one in stored(back, third)}) == 2


def test_a_part_names_its_parent_and_only_what_is_undivided_is_a_leaf() -> None:
    groups = [Group(0, None, frozenset("abcd")), Group(1, 0, frozenset("ab"))]
    whole, part = stored([*groups, Group(1, 0, frozenset("cd"))])[:2]
    assert (whole.parent, whole.leaf) == ("", False)
    assert (part.parent, part.leaf) == (whole.id, True)


@given(
    st.lists(st.frozensets(st.sampled_from("abcdefghijkl"), min_size=1), max_size=6),
    st.lists(st.frozensets(st.sampled_from("abcdefghijkl"), min_size=1), max_size=6),
)
def test_any_change_ends_in_just_the_groups_that_there_are(
    one: list[frozenset[str]], other: list[frozenset[str]]
) -> None:
    before, after = _apart(one), _apart(other)
    made = stored(after, stored(before))
    assert sorted(sorted(cluster.members) for cluster in made) == sorted(
        sorted(f"key of {label}" for label in group.members) for group in after
    )
    assert len({cluster.id for cluster in made}) == len(after)


def _apart(sets: list[frozenset[str]]) -> list[Group]:
    seen: set[str] = set()
    groups = []
    for members in sets:
        own = members - seen
        seen |= own
        if own:
            groups.append(Group(0, None, frozenset(own)))
    return groups
