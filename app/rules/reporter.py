"""Reports on communities without a language model: what is known of the most central members."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain import (
    Fact,
    Finding,
    KeyPoint,
    KeyPoints,
    Kind,
    Question,
    Ref,
    Report,
    Reported,
)
from app.ports import Tokenizer
from app.rules.lexicon import english
from app.rules.sentences import pieces, stems

NAMED = 3  # members in the title
SUMMARISED = 4  # members with a sentence in the summary
FINDINGS = 5
SENTENCES = 2  # of a finding
LONGEST = 80  # tokens of a sentence
RATING = 1.25  # times the binary logarithm of the mentions: 10 from 256 on
GENERAL = 50.0  # score of the opening of a report, for a question that names nothing


class RuleReporter:
    """Port `Reporter`, played by rules: it quotes what documents say of the members."""

    by_model = False

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    async def report(self, facts: Sequence[Fact]) -> Reported:
        """Named after its most central members; findings are its strongest relations."""
        return Reported(await asyncio.to_thread(self._report, facts))

    def _report(self, facts: Sequence[Fact]) -> Report:
        entities = [fact for fact in facts if fact.ref.kind is Kind.ENTITY]
        relations = [fact for fact in facts if fact.ref.kind is Kind.RELATION and fact.text]
        names = [fact.name for fact in entities]
        rest = "" if len(names) <= NAMED else f" (+{len(names) - NAMED})"
        openings = [self._sentences(fact.text, 1) for fact in entities if fact.text]
        said = [text for text in dict.fromkeys(openings) if text][:SUMMARISED]
        mentions = sum(fact.weight for fact in entities)
        return Report(
            ", ".join(names[:NAMED]) + rest,
            " ".join(said) or "; ".join(names),
            round(min(10.0, RATING * math.log2(1 + mentions)), 1),
            tuple(self._findings(relations or [fact for fact in entities if fact.text])),
        )

    def _findings(self, facts: Sequence[Fact]) -> Iterable[Finding]:
        told: set[str] = set()
        for fact in facts:
            text = self._sentences(fact.text, SENTENCES)
            if text and text not in told and len(told) < FINDINGS:
                told.add(text)
                yield Finding(fact.name, text, (fact.ref,))

    def _sentences(self, text: str, most: int) -> str:
        found = [text[one.start : one.end] for one in pieces(text) if not one.heading][:most]
        joined = " ".join(" ".join(found or [text]).split())
        return self._tokenizer.cut(joined, most * LONGEST)

    async def points(self, question: Question, reports: Sequence[Report]) -> KeyPoints:
        """Findings and openings by the share of the question's words that they have, rare ones
        counting more; of a question that has none by how much the reports matter."""
        return KeyPoints(tuple(await asyncio.to_thread(_points, question.text, reports)))


@dataclass(frozen=True, slots=True)
class _Told:
    report: int
    text: str
    stems: frozenset[str]
    refs: tuple[Ref, ...]
    opening: bool


def _points(question: str, reports: Sequence[Report]) -> list[KeyPoint]:
    told = [one for place, report in enumerate(reports) for one in _told(place, report)]
    lists = english()
    wanted = stems(question) - stems(" ".join([*lists["general"], *lists["instruction"]]))
    if not wanted:
        return [
            KeyPoint(one.report, one.text, GENERAL + 5 * reports[one.report].rating, one.refs)
            for one in told
            if one.opening
        ]
    held = {stem: sum(stem in one.stems for one in told) for stem in wanted}
    rarity = {stem: math.log1p(len(told) / (1 + count)) for stem, count in held.items()}
    whole = sum(rarity.values())
    points = []
    for one in told:
        share = sum(rarity[stem] for stem in wanted & one.stems) / whole
        if share > 0:
            points.append(KeyPoint(one.report, one.text, round(100 * share, 1), one.refs))
    return points


def _told(place: int, report: Report) -> Iterable[_Told]:
    every = tuple(dict.fromkeys(ref for one in report.findings for ref in one.refs))
    yield _Told(
        place, report.summary, frozenset(stems(f"{report.title} {report.summary}")), every, True
    )
    for one in report.findings:
        text = f"{one.summary}: {one.explanation}" if one.explanation else one.summary
        yield _Told(place, text, frozenset(stems(text)), one.refs, False)
