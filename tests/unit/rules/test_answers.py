"""Keywords, extractive answers, profiles and vectors without a language model."""

from __future__ import annotations

import asyncio
import math
import re

import pytest

from app.domain import Chunk, Context, Prompt, Question, Source, Usage
from app.errors import Unavailable
from app.llm.tokens import TiktokenTokenizer
from app.rules.answerer import RuleAnswerer
from app.rules.embedder import LocalEmbedder, windows
from app.rules.keyworder import RuleKeyworder, keywords
from app.rules.profiler import RuleProfiler
from app.rules.wording import wording

LAKE = (
    "Lake Inari lies in the north of Finland. It covers 1,040 square kilometres. The lake was "
    "mapped in 1875 by Otto Brandt. Fishermen sell whitefish at the harbour of the village."
)
MILL = "The Old Mill was built by Berta Klein. It burned down in 1901 and was never rebuilt."


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


def context(*texts: tuple[str, str]) -> Context:
    return Context(
        sources=tuple(
            Source(n, Chunk(f"c{n}", f"d{n}", 0, 0, len(text), text, 0), name, "", 1.0)
            for n, (name, text) in enumerate(texts, start=1)
        )
    )


async def reply(embedder: LocalEmbedder, question: Question, found: Context) -> str:
    parts = [part async for part in RuleAnswerer(embedder).answer(question, found)]
    assert isinstance(parts[-1], Usage)
    return "".join(part for part in parts if isinstance(part, str))


@pytest.mark.parametrize(
    ("question", "low", "high"),
    [
        (
            "Which harbour did the painter of Blue Boats live in?",
            {"Blue Boats"},
            {"harbour", "painter", "live"},
        ),
        (
            "side effects of zinc for older adults",
            {"side effects", "zinc", "older adults"},
            set(),
        ),
        ("founder of acme corp", {"founder", "acme corp"}, set()),
        ("Who is Scrooge's nephew?", {"Scrooge"}, {"nephew"}),
        ("曹操和刘备是什么关系？", {"曹操", "刘备"}, {"关系"}),
        ("Wer gründete die Universität Göttingen?", {"Universität Göttingen"}, {"gründete"}),
        ("", set(), set()),
    ],
)
def test_keywords_are_names_and_themes(question: str, low: set[str], high: set[str]) -> None:
    found = keywords(question)
    assert (set(found.low), set(found.high)) == (low, high)


async def test_words_of_instruction_are_no_keywords() -> None:
    found = await RuleKeyworder().keywords(Question("Please explain and describe the question"))
    assert not {"please", "explain", "describe", "question"} & {*found.low, *found.high}


async def test_every_marked_sentence_is_a_slice_of_its_source(embedder: LocalEmbedder) -> None:
    found = context(("Lake Inari.md", LAKE), ("Old Mill", MILL))
    text = await reply(embedder, Question("When was Lake Inari mapped?"), found)
    assert text.startswith("These are passages")
    marked = re.findall(r"(?:\n\n|\] )(?:\([^)]*\) )?(.+?) \[(\d)\]", text, re.DOTALL)
    assert marked
    for sentence, number in marked:
        assert sentence in found.sources[int(number) - 1].chunk.text
    assert "mapped in 1875" in text.split("[")[0]


async def test_a_sentence_that_begins_with_a_pronoun_gets_its_title(
    embedder: LocalEmbedder,
) -> None:
    question = Question("How many square kilometres does the lake cover?", response_type="short")
    text = await reply(embedder, question, context(("Lake Inari.md", LAKE)))
    assert "(Lake Inari) It covers 1,040 square kilometres. [1]" in text
    assert text.count("[1]") == 1


async def test_a_list_has_a_bullet_for_each_sentence(embedder: LocalEmbedder) -> None:
    question = Question("What is known about the lake?", response_type="Bullet list")
    text = await reply(embedder, question, context(("Lake Inari", LAKE)))
    assert text.count("\n- ") == text.count("[1]") > 1


@pytest.mark.parametrize("heading", ["The Old Mill of Berta Klein", "CHAPTER 1 – THE OLD MILL"])
async def test_a_heading_is_no_answer_where_there_is_text(
    embedder: LocalEmbedder, heading: str
) -> None:
    asked = Question("Who built the Old Mill?")
    text = await reply(embedder, asked, context(("notes", f"{heading}\n\n{MILL}")))
    assert "The Old Mill was built by Berta Klein. [1]" in text
    assert f"{heading} [1]" not in text
    assert f"{heading} [1]" in await reply(embedder, asked, context(("notes", heading)))


async def test_a_table_of_one_row_is_answered_from(embedder: LocalEmbedder) -> None:
    found = context(("staff.csv", "name: Ann | role: approver"))
    text = await reply(embedder, Question("Who is the approver?"), found)
    assert "name: Ann | role: approver [1]" in text


@pytest.mark.parametrize(
    ("question", "opening"),
    [
        ("Did the mill burn down in 1901?", "The documents say"),
        (
            "Wer hat die alte Mühle (Old Mill) gebaut und wann ist sie verbrannt?",
            "Das sind Stellen",
        ),
        ("Qui a construit le moulin Old Mill et quand ?", "Voici des passages"),
        ("¿Quién construyó el molino Old Mill?", "Estos son pasajes"),
        ("Old Mill 是谁建造的？", "以下是"),
    ],
)
async def test_the_opening_is_in_the_language_of_the_question(
    embedder: LocalEmbedder, question: str, opening: str
) -> None:
    text = await reply(embedder, Question(question), context(("Old Mill", MILL)))
    assert text.startswith(opening)
    assert "[1]" in text
    assert not re.search(r"\b(?:Yes|No)\b", text)


async def test_a_language_asked_for_wins() -> None:
    assert wording("Who?", "de-AT") == wording("Wer ist das und wo ist sie?")
    assert wording("Who?", "French").passages.startswith("Voici")
    assert wording("Who?", "Klingon") == wording("Who?")


@pytest.mark.parametrize(
    "question",
    ["Which galaxies did the astronomer photograph in Chile?", "Quelle est la capitale du Pérou ?"],
)
async def test_where_nothing_fits_nothing_is_said(embedder: LocalEmbedder, question: str) -> None:
    found = context(("Old Mill", MILL))
    text = await reply(embedder, Question(question), found)
    assert text == ""
    assert not (await RuleAnswerer(embedder).relevance(Question(question), found)).enough


async def test_a_question_about_everything_is_answered(embedder: LocalEmbedder) -> None:
    text = await reply(embedder, Question("Summarise the document"), context(("Mill", MILL)))
    assert "[1]" in text


async def test_over_an_empty_context_nothing_is_said(embedder: LocalEmbedder) -> None:
    assert await reply(embedder, Question("Who?"), Context()) == ""


async def test_without_a_model_nothing_is_completed(embedder: LocalEmbedder) -> None:
    with pytest.raises(Unavailable, match="HELIOGRAPH_LLM_URL"):
        await RuleAnswerer(embedder).complete(Prompt("", "hello"))
    assert RuleAnswerer(embedder).model is None


async def test_a_profile_begins_with_the_definition_and_keeps_the_limit() -> None:
    descriptions = [
        "Everybody knew Zorbex well in those days.",
        "Zorbex is a beekeeper from the northern coast.",
        "Zorbex is a beekeeper from the northern coast of the island.",
        *(f"In {year} the council of harbour {year} asked him riddles." for year in range(60)),
    ]
    tokenizer = TiktokenTokenizer()
    found = await RuleProfiler(tokenizer).summarise("Zorbex", descriptions, limit=100)
    assert found.text.startswith("Zorbex is a beekeeper")
    assert found.text.count("beekeeper") == 1
    assert tokenizer.count(found.text) <= 100


async def test_vectors_are_unit_vectors_in_the_order_of_the_texts(embedder: LocalEmbedder) -> None:
    texts = ["A boat on the lake", "", "Ein Boot auf dem See", "Tax law", "A boat on the lake"]
    vectors = (await embedder.embed(texts, purpose="document")).vectors
    lengths = [math.sqrt(sum(x * x for x in vector)) for vector in vectors]
    assert lengths == pytest.approx([1, 0, 1, 1, 1])
    assert all(len(vector) == embedder.dimension for vector in vectors)
    assert vectors[0] == vectors[4]
    near = sum(a * b for a, b in zip(vectors[0], vectors[2], strict=True))
    far = sum(a * b for a, b in zip(vectors[0], vectors[3], strict=True))
    assert near > 0.6 > far


async def test_requests_at_the_same_time_do_not_mix(embedder: LocalEmbedder) -> None:
    lists = [[f"text {n} {m}" for m in range(20)] for n in range(5)]
    together = await asyncio.gather(*(embedder.embed(texts, purpose="query") for texts in lists))
    for texts, made in zip(lists, together, strict=True):
        alone = await LocalEmbedder().embed(texts, purpose="document")
        for one, other in zip(made.vectors, alone.vectors, strict=True):
            assert one == pytest.approx(other, abs=1e-4)


def test_long_texts_are_cut_into_equal_windows_between_words() -> None:
    text = " ".join(f"word{n}" for n in range(250))
    parts = windows(text)
    assert " ".join(parts) == text
    assert {len(part.split()) for part in parts} <= {82, 83, 84}
    assert len(windows("字" * 1000)) == 5
    assert windows(" \n") == [] and windows("\ud800x") == ["?x"]
