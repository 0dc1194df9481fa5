from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from app.domain import Entity, Question
from app.names import key
from app.query.links import Linked, dice, find_links, idf, nearest_spelling


class Names:
    """An index of names; those marked with * are what some chunk is about."""

    def __init__(self, *names: str, aliases: dict[str, str] | None = None) -> None:
        self._about = {key(name.rstrip("*")) for name in names if name.endswith("*")}
        self._entities = {
            key(name): Entity(key(name), name, "other", "", 1)
            for name in (name.rstrip("*") for name in names)
        }
        self._aliases = {key(alias): key(name) for alias, name in (aliases or {}).items()}
        self.calls = 0

    async def find(self, keys: Sequence[str], *, about: bool = False) -> dict[str, Entity]:
        self.calls += 1
        found = {}
        for wanted in keys:
            for place in (wanted, self._aliases.get(wanted, "")):
                entity = self._entities.get(place)
                if entity is not None and (not about or entity.key in self._about):
                    found[wanted] = entity
                    break
        return found


async def linked(index: Names, text: str, *low: str) -> Linked:
    graph: Any = index
    return await find_links(graph, Question(text), low)


async def weights(index: Names, text: str, *low: str) -> dict[str, float]:
    return {link.entity.name: link.weight for link in (await linked(index, text, *low)).links}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("When did Lothair II's mother die?", "Lothair II"),
        ("When did Lothair Ii's mother die?", "Lothair II"),
        ("Who founded Sao Paulo?", "São Paulo"),
        ("Who founded São Paulo?", "Sao Paulo"),
        ("Who sings in the Beatles?", "The Beatles"),
        ("What does NASA do?", "NASA"),
        ("Who wrote Talk About a Stranger?", "Talk About a Stranger"),
        ("诸葛亮在哪里出生？", "诸葛亮"),
        ("東京の人口は？", "東京"),
        ("Where is King's College?", "King's College"),
        ("Is AC/DC a band?", "AC/DC"),
        ("Is Emma (novel) long?", "Emma (novel)"),
    ],
)  # fmt: skip
async def test_names_are_found_as_people_write_them(text: str, name: str) -> None:
    assert await weights(Names(name, "Bonanza"), text) == {name: 1.0}


async def test_the_longest_name_wins_and_nothing_overlaps_it() -> None:
    index = Names("New York", "York", "New York Times", "Times")
    assert await weights(index, "Who owns the New York Times?") == {"New York Times": 1.0}


async def test_single_stop_words_are_never_names() -> None:
    index = Names("It*", "Who*", "Is*", "Film*")
    assert await weights(index, "Who is it?") == {}


async def test_a_band_called_like_a_stop_word_needs_its_capital() -> None:
    assert await weights(Names("The Who*"), "When did the Who play?") == {"The Who": 1.0}
    assert await weights(Names("The Who*"), "When did the who play?") == {}


async def test_lower_case_spans_weigh_little_in_an_ordinary_question() -> None:
    index = Names("Oulu", "side effects", "zinc*", "adults")
    found = await weights(index, "Which side effects of zinc did adults in Oulu report?")
    assert found == {"Oulu": 1.0, "side effects": 0.3, "zinc": 0.3}


async def test_a_question_without_any_capital_names_things_in_lower_case() -> None:
    index = Names("Silent Harbour*", "Signmark*", "Film*", "NASA*")
    found = await weights(index, "which film about nasa by signmark is in silent harbour")
    assert found == {"Silent Harbour": 1.0, "Signmark": 1.0, "NASA": 1.0, "Film": 0.3}


async def test_lower_case_words_that_no_passage_is_about_name_nothing_for_certain() -> None:
    index = Names("side effects", "Zinc tablets*")
    found = await weights(index, "which side effects do zinc tablets have")
    assert found == {"side effects": 0.3, "Zinc tablets": 1.0}


async def test_a_name_written_like_any_word_is_known_as_such() -> None:
    index = Names("side effects", "Oulu")
    found = await linked(index, "Which side effects did Oulu report?")
    assert {link.name: link.plain for link in found.links} == {"side effects": True, "Oulu": False}


async def test_an_alias_leads_to_the_entity_and_to_what_passages_are_about() -> None:
    index = Names(
        "George Rankin", "George James Rankin*", aliases={"George Rankin": "George James Rankin"}
    )
    found = await weights(index, "Who was George Rankin?")
    assert found == {"George Rankin": 1.0, "George James Rankin": 1.0}


async def test_given_keywords_are_names_for_certain() -> None:
    index = Names("zinc", "side effects")
    assert await weights(index, "what does it do to people", "Zinc", "unknown") == {"zinc": 1.0}


async def test_capital_runs_that_match_nothing_are_kept_for_spelling() -> None:
    found = await linked(Names("Oulu"), "Where in Oulu was Aino Korhonnen born?")
    assert found.unmatched == ("Aino Korhonnen",)
    assert (await linked(Names("Oulu"), "Where was it made?")).unmatched == ()


async def test_look_ups_are_two_calls_whatever_the_question() -> None:
    index = Names("Oulu")
    await linked(index, "Oulu " * 300)
    assert index.calls == 2


@pytest.mark.parametrize("text", ["", " ", "?!", "🎉", "\x00", "a" * 5000, "的" * 500])
async def test_no_question_breaks_the_look_up(text: str) -> None:
    assert (await linked(Names("Oulu*"), text)).links == ()


def test_spelling_is_compared_by_trigrams() -> None:
    keys = ["aino korhonen", "eino salo", "kuusamo"]
    spelling = nearest_spelling("Aino Korhonnen", keys)
    assert spelling is not None
    assert spelling[0] == "aino korhonen"
    assert spelling[1] == pytest.approx(dice("aino korhonnen", "aino korhonen"))
    assert nearest_spelling("Somebody Else", keys) is None
    assert nearest_spelling("", []) is None
    assert dice("oulu", "oulu") == 1


def test_rarity_is_one_for_a_single_mention_and_falls_with_more() -> None:
    assert idf(1, 1000) == 1
    assert idf(1000, 1000) < 0.11
    assert idf(10, 1000) > idf(100, 1000) > 0
    assert idf(0, 0) == 1
    assert idf(5, 1) > 0
