"""Hashes without order, vectors without noise."""

from __future__ import annotations

import math
import random

from app.upkeep.fingerprint import Part
from app.upkeep.lines import SUMS, sketch


def test_the_order_of_records_does_not_matter_but_their_number_does() -> None:
    one, other, twice = Part(), Part(), Part()
    for line in ("a", "b", "c"):
        one.add(line)
        twice.add(line)
    for line in ("c", "a", "b"):
        other.add(line)
    for line in ("a", "a"):  # which exclusive or would not see
        twice.add(line)
    assert one.hash == other.hash
    assert one.hash != twice.hash


def unit(chance: random.Random) -> tuple[float, ...]:
    values = [chance.gauss(0, 1) for _ in range(512)]
    length = math.hypot(*values)
    return tuple(value / length for value in values)


def test_another_vector_has_another_sketch_and_the_last_digits_have_none() -> None:
    chance = random.Random(7)
    vectors = [unit(chance) for _ in range(200)]
    sketches = [sketch(vector) for vector in vectors]
    assert len({tuple(one) for one in sketches}) == len(vectors)
    assert all(len(one) == SUMS for one in sketches)
    for vector, before in zip(vectors, sketches, strict=True):
        noisy = tuple(value * (1 + chance.uniform(-1e-9, 1e-9)) for value in vector)
        assert sketch(noisy) == before


def test_sketches_of_few_and_of_no_numbers() -> None:
    assert sketch(()) == []
    assert sketch((1.0, -0.01)) == ["1.0", "0.0"]
