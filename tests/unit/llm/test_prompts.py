"""Prompts are files: filled once, checked when read, replaceable."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import Misconfigured
from app.prompts import NAMES, Prompts, fence


def test_every_prompt_is_read_and_has_a_digest() -> None:
    prompts = Prompts()
    assert len({prompts.digest(name) for name in NAMES}) == len(NAMES)


def test_fields_within_values_are_not_fields() -> None:
    filled = Prompts().fill("bypass", {"question": "What is {{question}} and {{text}}?"})
    assert filled.user == "What is {{question}} and {{text}}?"
    assert filled.system.startswith("# Answer from general knowledge")


def test_a_folder_replaces_single_prompts(tmp_path: Path) -> None:
    (tmp_path / "bypass.md").write_text("Short.\n<!-- user -->\nQ: {{question}}\n")
    prompts = Prompts(tmp_path)
    assert prompts.fill("bypass", {"question": "Why?"}).user == "Q: Why?"
    assert prompts.digest("bypass") != Prompts().digest("bypass")
    assert prompts.digest("extract") == Prompts().digest("extract")


@pytest.mark.parametrize("text", ["no parts", "a\n<!-- user -->\n{{nonsense}}"])
def test_a_prompt_that_cannot_be_filled_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "bypass.md").write_text(text)
    with pytest.raises(Misconfigured, match=r"bypass\.md"):
        Prompts(tmp_path)


@pytest.mark.parametrize("text", ["plain", "```\ncode\n```", "`````", "a ```` b", ""])
def test_a_fence_is_longer_than_any_within(text: str) -> None:
    first, *inner, last = fence(text).split("\n")
    assert first == last + "text"
    assert "\n".join(inner) == text
    assert last not in text
