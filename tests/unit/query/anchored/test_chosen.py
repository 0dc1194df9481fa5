from __future__ import annotations

from app.query.anchored.chosen import by_chain, chunk_hits, entity_scores, keep, stretched

# a - b - c - d - e, and x - y apart
CHAIN = [(0, 1), (1, 2), (2, 3), (3, 4), (5, 6)]


def test_the_best_are_kept_in_order_of_score_then_place() -> None:
    kept = keep(CHAIN, [1.0, 3.0, 2.0, 3.0, 0.0], [], 3)
    assert kept.rows == (1, 3, 2)
    assert kept.bridges == ()


def test_a_loose_relation_gets_the_path_that_ties_it_to_a_topic() -> None:
    ends = [*CHAIN, *((10 + n, 20 + n) for n in range(8))]
    scores = [5.0, 0.1, 0.2, 4.0, 3.0, *(2.0 for _ in range(8))]
    kept = keep(ends, scores, [0], 10)
    assert set(kept.rows) >= {0, 3}
    assert kept.bridges == (1, 2)  # b - c - d, and no path leads to x - y


def test_of_several_bridges_the_one_whose_worse_half_is_best_is_taken() -> None:
    ends = [(0, 1), (3, 4), (1, 8), (8, 3), (1, 9), (9, 3), *((20 + n, 40 + n) for n in range(8))]
    scores = [9.0, 8.0, 3.0, 0.1, 1.0, 1.0, *(5.0 for _ in range(8))]
    assert keep(ends, scores, [0], 10).bridges == (4, 5)


def test_bridges_are_a_quarter_of_what_is_kept_at_most() -> None:
    kept = keep(CHAIN, [5.0, 0.1, 0.2, 4.0, 0.0], [0], 2)
    assert kept.rows == (0, 3)
    assert kept.bridges == ()


def test_relations_are_shown_along_their_chains() -> None:
    scores = [1.0, 2.0, 9.0, 3.0, 5.0]
    kept = keep(CHAIN, scores, [0], 5)
    assert by_chain(kept, CHAIN, scores, [0]) == [0, 1, 2, 4, 3]
    assert by_chain(kept, CHAIN, scores, []) == [2, 4, 3, 1, 0]


def test_entities_count_their_best_two_relations() -> None:
    found = entity_scores([0, 1, 2], [(0, 1), (1, 2), (1, 1)], {0: 1.0, 1: 0.5, 2: 0.25})
    assert found == {0: 1.0, 1: 1.5, 2: 0.5}


def test_chunks_count_their_best_relation_and_a_tenth_of_the_second() -> None:
    asserted = {"r": ["c1", "c2"], "s": ["c2"], "t": ["c3"]}
    hits = chunk_hits({"r": 1.0, "s": 0.5, "t": 0.9}, asserted, {})
    assert [(hit.key, round(hit.score, 3)) for hit in hits] == [
        ("c2", 1.05), ("c1", 1.0), ("c3", 0.9),
    ]  # fmt: skip


def test_of_many_chunks_of_a_relation_the_nearest_three_count() -> None:
    near = {f"c{n}": n / 10 for n in range(6)}
    hits = chunk_hits({"r": 1.0}, {"r": list(near)}, near)
    assert [hit.key for hit in hits] == ["c5", "c4", "c3"]


def test_scores_are_stretched_to_the_unit_interval() -> None:
    assert stretched([2.0, 4.0, 3.0]) == [0.0, 1.0, 0.5]
    assert stretched([2.0, 2.0]) == [1.0, 1.0]
    assert stretched([]) == []
