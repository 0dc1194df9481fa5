"""The documents that come with the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import media
from tests.unit.parsing.made import LIMITS
from workers.parsing import Parsed, parse

SAMPLES = Path(__file__).parents[3] / "samples"
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.name != "README.md")


async def read(name: str) -> Parsed:
    data = (SAMPLES / name).read_bytes()
    return await parse(data, name, media.media_type_of(name, "", data), limits=LIMITS)


@pytest.mark.parametrize("name", NAMES)
async def test_every_sample_is_read_without_a_warning_and_named_in_the_readme(name: str) -> None:
    parsed = await read(name)
    assert len(parsed.text) > 3000
    assert parsed.warnings == ()
    assert f"`{name}`" in (SAMPLES / "README.md").read_text()


def test_the_samples_stay_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.iterdir()) < 600_000


async def test_a_typeset_book_loses_its_margins_and_keeps_its_paragraphs() -> None:
    parsed = await read("a-christmas-carol-stave-two.pdf")
    assert parsed.title == "A Christmas Carol: Stave Two"
    assert [number for _, number in parsed.pages] == list(range(1, 16))
    assert [h.text for h in parsed.headings] == ["STAVE TWO", "THE FIRST OF THE THREE SPIRITS"]
    assert "A Christmas Carol" not in parsed.text
    assert (
        "\n\nTo his great astonishment, the heavy bell went on from six to seven, and from seven "
        "to eight, and regularly up to twelve; then stopped. Twelve! It was past two when he went "
        "to bed. The clock was wrong. An icicle must have got into the works. Twelve!\n\n"
    ) in parsed.text
    assert "that anything has happened to the sun, and this is twelve at noon" in parsed.text
