"""One thing, one node, whatever came first: the resolve stage on real stores."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app import curation
from app.domain import (
    Asked,
    EntityMention,
    Extraction,
    Judgement,
    Plan,
    RelationMention,
    Ruling,
    Usage,
)
from app.errors import NotFound
from app.folding import document_of, document_scope
from app.upkeep.difference import difference
from app.upkeep.fingerprint import dump
from tests import make
from tests.workers.conftest import Rig
from workers.stages import resolve


class Names:
    """An extractor for texts that are lists of names: `Name = alias <kind>: description; …`, each
    related to the one before."""

    version = "names 1"
    by_model = False

    async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction:
        found = [
            EntityMention(
                match["name"].strip(), match["kind"] or "", match["description"] or "",
                (match["alias"].strip(),) if match["alias"] else (),
            )
            for part in text.split(";")
            if (match := _NAME.fullmatch(part.strip()))
        ]  # fmt: skip
        pairs = itertools.pairwise(found)
        return Extraction(
            tuple(found),
            tuple(RelationMention(a.name, b.name, f"{a.name} and {b.name}") for a, b in pairs),
            model="test",
        )


_NAME = re.compile(
    r"(?P<name>[^<:=]+)(?:=(?P<alias>[^<:]+))?(?:<(?P<kind>\w+)>)?(?::(?P<description>.*))?",
    re.DOTALL,
)


@pytest.fixture
def names(rig: Rig) -> Rig:
    rig.extractor.inner = Names()
    return rig


async def add(rig: Rig, document_id: str, text: str, workspace: str = "default") -> None:
    await rig.submit(text, document_id, workspace=workspace)
    await rig.drain()


async def lines(rig: Rig, workspace: str) -> list[str]:
    return sorted([line async for line in dump(rig.workspace(workspace))])


async def curate(rig: Rig, workspace: str = "default") -> None:
    job = rig.job(Plan.CURATE, "", workspace)
    await rig.services.journal.open(job)
    await rig.queue.send([rig.first(job)])
    await rig.drain()


async def test_two_spellings_of_one_name_are_one_entity(names: Rig) -> None:
    await add(names, "a", "Donald Henderson <person>: an epidemiologist; Smallpox: a disease")
    await add(names, "b", "Henderson, Donald <person>: led the campaign; Smallpox: eradicated")
    found = await names.workspace().graph.find(["donald henderson", "henderson donald"])
    assert len({entity.key for entity in found.values()}) == 1
    [entity] = {entity.key: entity for entity in found.values()}.values()
    assert entity.mentions == 2
    relations = await names.workspace().graph.relations_of([entity.key], per_entity=10)
    assert [relation.mentions for relation in relations] == [2]


async def test_an_ambiguous_short_form_is_nobody_in_particular(names: Rig) -> None:
    await add(names, "a", "Food Standards Agency <organization>: an agency; London: a city")
    await add(names, "b", "FSA <organization>: it said so; Meat: a food")
    graph, keys = names.workspace().graph, ["^fsa", "food standards agency"]
    assert len({entity.key for entity in (await graph.find(keys)).values()}) == 1
    await add(names, "c", "Financial Services Authority <organization>: another; Bern: a city")
    found = await graph.find([*keys, "financial services authority"])
    assert len({entity.key for entity in found.values()}) == 3
    await names.delete("c")
    await names.drain()
    assert len({entity.key for entity in (await graph.find(keys)).values()}) == 1


async def test_a_surname_is_the_one_person_whose_passage_has_it(names: Rig) -> None:
    full, short = "Ebenezer Scrooge <person>: a miser", "Scrooge <person>: he came in"
    await add(names, "a", f"{full}; London: a city")
    await add(names, "b", f"{short}; Bob Cratchit <person>: a clerk")
    graph, keys = names.workspace().graph, ["ebenezer scrooge", "scrooge"]
    assert len({entity.key for entity in (await graph.find(keys)).values()}) == 2
    await add(names, "c", f"{full}; {short}")
    assert len({entity.key for entity in (await graph.find(keys)).values()}) == 1
    await names.delete("c")
    await names.drain()
    assert len({entity.key for entity in (await graph.find(keys)).values()}) == 2


async def test_a_name_at_the_edge_of_what_is_looked_at_keeps_its_decisions(names: Rig) -> None:
    """When "Smith & Co" comes, not all pairs of "FSA" are read: just that with what Smith is."""
    await add(names, "a", "FSA <organization>; Food Safety Agency <organization>")
    await add(names, "b", "Food Standards Agency <organization>; London")
    await add(names, "c", "Smith = Food Standards Agency <person>; Bern")
    register = names.workspace().names
    before = {one.pair.keys: one.decision for one in await register.review(decision="")}
    assert before["^fsa", "food standards agency"] == "ask"
    await add(names, "d", "Smith & Co <organization>; Rome")
    after = {one.pair.keys: one.decision for one in await register.review(decision="")}
    assert len(after) > len(before)
    assert {keys: after[keys] for keys in before} == before


async def test_a_passage_ties_two_names_whatever_they_mean(names: Rig) -> None:
    """Homonyms, for one: which Scrooge is meant is decided by all that is said of him."""
    both = "Ebenezer Scrooge <person>: a miser; Scrooge <person>: Scrooge (born 1967) is an actor"
    await add(names, "a", both)
    for document in "bc":
        banker = "Scrooge <person>: Scrooge (born 1900) is a banker"
        await add(names, document, f"{banker}; Bern: a city of {document}")
    before = await lines(names, "default")
    assert "Scrooge (born 1967)" in await names.entities()
    await add(names, "d", "Scrooge = Uncle Scrooge; Rome")  # he is looked at once more
    await names.delete("d")
    await names.drain()
    assert not list(difference(before, await lines(names, "default")))


BANKER = "Scrooge <person>: Scrooge (born 1900) is a banker"
ACTOR = "Scrooge <person>: Scrooge (born 1967) is an actor"


async def homonyms(names: Rig) -> None:
    """Two that one document speaks of; most mentions are of the banker."""
    await add(names, "a", f"{BANKER}; {ACTOR}; Rome")
    for document in "bc":
        await add(names, document, f"{BANKER}; Bern: a city of {document}")
    found = await names.entities()
    assert (found["Scrooge"], found["Scrooge (born 1967)"]) == (3, 1)


@pytest.mark.parametrize(
    ("removed", "left"),
    [("Scrooge (born 1967)", {"Scrooge": 3}), ("Scrooge", {"Scrooge": 1})],  # the one that is left
)
async def test_removing_one_of_two_homonyms_in_a_document_leaves_the_other(
    names: Rig, removed: str, left: dict[str, int]
) -> None:
    await homonyms(names)
    before = await lines(names, "default")
    space = names.workspace()
    await curation.remove(space, removed)
    await curate(names)

    async def scrooges() -> dict[str, int]:
        return {name: n for name, n in (await names.entities()).items() if "Scrooge" in name}

    assert await scrooges() == left
    for more in ("; Milan", ""):  # and so it is in other versions of the document
        await add(names, "a", f"{BANKER}; {ACTOR}; Rome{more}")
        assert await scrooges() == left
    for document in ("a", "b", "c"):
        with suppress(NotFound):
            await curation.undo(space, "Scrooge", document)
    await curate(names)
    assert not list(difference(before, await lines(names, "default")))


async def test_splitting_one_of_two_homonyms_takes_its_mentions_alone(names: Rig) -> None:
    await homonyms(names)
    space = names.workspace()
    await curation.split(space, "Scrooge", [curation.Group("The Banker", ("a", "b"))])
    await curate(names)
    found = await names.entities()
    assert (found["The Banker"], found["Scrooge"], found["Scrooge (born 1967)"]) == (2, 1, 1)
    scopes = {one.scope for one in await space.names.placed()}
    assert document_scope("a") not in scopes
    await names.delete("a")
    await names.drain()
    assert {document_of(one.scope) for one in await space.names.placed()} == {"b"}


async def test_a_name_that_means_one_thing_is_removed_from_whole_documents(names: Rig) -> None:
    """Whatever a later version says that the thing is."""
    await add(names, "a", f"{BANKER}; Rome")
    space = names.workspace()
    await curation.remove(space, "Scrooge")
    assert [one.scope for one in await space.names.placed()] == [document_scope("a")]


async def test_a_ruling_beats_the_rules_and_can_be_taken_back(names: Rig) -> None:
    await add(names, "a", "Donald Henderson <person>: an epidemiologist; Smallpox: a disease")
    await add(names, "b", "Henderson, Donald <person>: led the campaign; Geneva: a city")
    before = await lines(names, "default")
    register = names.workspace().names
    one, other = "donald henderson", "henderson donald"
    await register.rule([Ruling(one, other, False, "user")])
    await curate(names)
    found = await names.workspace().graph.find([one, other])
    assert found[one].key != found[other].key
    await add(names, "c", "Henderson, Donald <person>: again; Bern: a city")
    found = await names.workspace().graph.find([one, other])
    assert found[one].key != found[other].key, "it holds for later documents"
    await names.delete("c")
    await names.drain()
    assert await register.unrule(one, other)
    await curate(names)
    assert not list(difference(before, await lines(names, "default")))


async def test_a_ruling_joins_what_no_rule_would(names: Rig) -> None:
    await add(names, "a", "Hogtown: a nickname; Mayor: an office")
    await add(names, "b", "Toronto: a city; Ontario: a province")
    before = await lines(names, "default")
    await names.workspace().names.rule([Ruling("hogtown", "toronto", True, "user")])
    await curate(names)
    found = await names.workspace().graph.find(["hogtown", "toronto"])
    assert len({entity.key for entity in found.values()}) == 1
    assert found["toronto"].mentions == 2
    await names.workspace().names.unrule("hogtown", "toronto")
    await curate(names)
    assert not list(difference(before, await lines(names, "default")))


class FirstWord:
    """A judge for whom names with the same first word are one thing."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answer: bool | None = None  # what it says instead

    async def judge(self, asked: Sequence[Asked]) -> Judgement:
        self.asked += [(one.name, other.name) for one, other in asked]
        same = (one.name.split()[0] == other.name.split()[0] for one, other in asked)
        if self.answer is not None:
            same = (self.answer for _ in asked)
        return Judgement(tuple(same), Usage(1, 100, 10))


async def test_a_judge_decides_what_is_doubtful_once_and_is_charged(names: Rig) -> None:
    judge = FirstWord()
    names.services = replace(names.services, models=replace(names.services.models, judge=judge))
    await add(names, "a", "World Bank Group <organization>: lends; Washington: a city")
    await add(names, "b", "World Bank <organization>: lends too; Paris: a city")
    assert [set(pair) for pair in judge.asked] == [{"World Bank", "World Bank Group"}]
    graph, keys = names.workspace().graph, ["world bank", "world bank group"]
    assert len({entity.key for entity in (await graph.find(keys)).values()}) == 1
    assert (await names.workspace().documents.get("b")).usage.llm_calls == 1
    await add(names, "c", "World Bank <organization>: lends again; Bern: a city")
    await curate(names)
    assert len(judge.asked) == 1
    for document in "abc":
        await names.delete(document)
        await names.drain()
    assert await names.workspace().names.rulings(keys) == [], "nothing of it is left"


async def test_a_judge_is_asked_no_more_of_a_name_because_it_said_no(names: Rig) -> None:
    judge = FirstWord()
    names.services = replace(names.services, models=replace(names.services.models, judge=judge))
    judge.answer = False
    for n, word in enumerate(("Group", "International", "Division")):
        await add(names, f"d{n}", f"World Bank {word} <organization>")
    await add(names, "b", "World Bank <organization>")
    assert len([pair for pair in judge.asked if "World Bank" in pair]) == 2


async def test_a_judge_is_asked_about_names_that_share_no_letter_but_a_meaning(names: Rig) -> None:
    judge = FirstWord()
    names.services = replace(names.services, models=replace(names.services.models, judge=judge))
    await add(names, "a", "Tokyo <location>: the capital of Japan; Honshu <location>: an island")
    await add(names, "b", "東京 <location>: 日本の首都; 富士山 <location>: 山")
    assert {"Tokyo", "東京"} in [set(pair) for pair in judge.asked]


# Names that mean each other, may mean each other, and only look like it.
POOL = (
    "WHO", "World Health Organization", "W.H.O.", "FSA <organization>", "F.S.A.",
    "Food Standards Agency <organization>", "Financial Services Authority <organization>",
    "John Smith <person>: a miner", "J. Smith <person>: a baker", "Smith <person>: someone",
    "Jane Smith <person>: a judge", "John Adam Smith <person>: a smith", "Smith, John <person>",
    "Boris Johnson <person>: a politician", "Boris de Pfeffel Johnson <person>: him in full",
    "Paris <location>: a city in France", "Paris <person>: a prince of Troy", "Paris",
    "Hepatitis B: a disease", "Hepatitis C: another", "Electrons", "electron", "ELECTRONS",
    "United States", "USA", "U.S.", "United States of America", "European Union", "EU",
    "北大西洋公约组织", "北约", "Analytical Engine", "Analytical Engines", "analytic engine",
)  # fmt: skip


async def test_names_that_come_at_once_end_as_one_by_one(
    names: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where they hang together with more than one settlement looks at."""
    monkeypatch.setattr(resolve, "MAX_CLOSURE", 4)
    at_once, one_by_one = make.name(), make.name()
    for n, name in enumerate(POOL):
        await names.submit(name, f"d{n}", workspace=at_once)
    await names.drain()
    for n, name in enumerate(POOL):
        await add(names, f"d{n}", name, one_by_one)
    assert not list(difference(await lines(names, one_by_one), await lines(names, at_once)))
    registers = [names.workspace(name).names for name in (at_once, one_by_one)]
    assert len({str(await one.review(decision="", limit=500)) for one in registers}) == 1


texts = st.lists(st.sampled_from(POOL), min_size=1, max_size=6, unique=True).map("; ".join)
histories = st.lists(
    st.tuples(st.sampled_from(["add", "add", "delete"]), st.sampled_from("abcde"), texts),
    min_size=1, max_size=10,
)  # fmt: skip


@pytest.mark.anyio
@given(history=histories, order=st.permutations("abcde"))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_any_history_ends_like_the_survivors_alone(
    names: Rig, history: list[tuple[str, str, str]], order: list[str]
) -> None:
    lived, fresh = make.name(), make.name()
    documents: dict[str, str] = {}
    for what, document_id, text in history:
        if what == "add":
            documents[document_id] = text
            await add(names, document_id, text, lived)
        elif documents.pop(document_id, None) is not None:
            await names.delete(document_id, lived)
            await names.drain()
    for document_id in order:
        if document_id in documents:
            await add(names, document_id, documents[document_id], fresh)
    assert not list(difference(await lines(names, fresh), await lines(names, lived)))
    registers = [names.workspace(name).names for name in (fresh, lived)]
    assert len({str(await one.review(decision="", limit=500)) for one in registers}) == 1
