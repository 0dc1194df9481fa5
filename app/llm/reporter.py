"""Reports on communities, and what in them answers a question, by a language model: the two prompts
of GraphRAG's global search (Edge et al. 2024, arXiv 2404.16130)."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

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
from app.llm import cleaning
from app.llm.chat import ChatModel
from app.llm.dialects import Schema
from app.llm.lenient import Cut, values
from app.llm.reader import refuses
from app.llm.thoughts import without_thoughts
from app.prompts import Prompts, fence

log = logging.getLogger("heliograph.llm")

FINDINGS = 8
TITLE, SUMMARY, POINT = 200, 3000, 1000  # characters
REPORT_TOKENS, POINTS_TOKENS = 1600, 1600
THINKING = 2000  # tokens of reply left to models that think aloud first
FRAME = 12  # tokens around a fact
MOST_POINTS = 50  # of one reply

_TEXT: Schema = {"type": "string"}
_NUMBERS: Schema = {"type": "array", "items": {"type": "integer"}}


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object", "properties": properties, "required": list(properties),
        "additionalProperties": False,
    }  # fmt: skip


REPORT_SCHEMA = _object(
    title=_TEXT, summary=_TEXT, rating={"type": "number"},
    findings={
        "type": "array", "items": _object(summary=_TEXT, explanation=_TEXT, facts=_NUMBERS),
    },
)  # fmt: skip
POINTS_SCHEMA = _object(
    points={
        "type": "array",
        "items": _object(
            point=_TEXT, score={"type": "integer"}, summary={"type": "integer"},
            finding={"type": "integer"},
        ),
    }
)  # fmt: skip


class LlmReporter:
    """Port `Reporter`. `asking` answers while somebody waits, `writing` does not."""

    by_model = True

    def __init__(
        self, writing: ChatModel, asking: ChatModel, prompts: Prompts, *, language: str = ""
    ) -> None:
        self._writing, self._asking, self._prompts = writing, asking, prompts
        self._language = language

    async def report(self, facts: Sequence[Fact]) -> Reported:
        spoken = f"Write in {self._language}." if self._language else (
            "Write in the language of most of the facts."
        )  # fmt: skip
        shown = self._within(facts)
        listed = "\n".join(_fact(number, fact) for number, fact in enumerate(shown, start=1))
        prompt = self._prompts.fill(
            "community",
            {"findings": str(FINDINGS), "language": spoken, "facts": fence(listed)},
        )
        completion = await self._writing.complete(
            replace(prompt, max_tokens=REPORT_TOKENS + THINKING), REPORT_SCHEMA
        )
        report = read_report(completion.text, shown)
        if report is None:
            log.info("report.unreadable model=%s", self._writing.model)
            return Reported(None, completion.usage)
        return Reported(replace(report, model=self._writing.model), completion.usage)

    def _within(self, facts: Sequence[Fact]) -> list[Fact]:
        """As many as the model has room for, from the first on."""
        tokenizer, room = self._writing.tokenizer, self._writing.prompt_room - 1000
        shown: list[Fact] = []
        for number, fact in enumerate(facts, start=1):
            room -= tokenizer.count(_fact(number, fact)) + FRAME
            if room < 0 and shown:
                break
            shown.append(fact)
        return shown

    async def points(self, question: Question, reports: Sequence[Report]) -> KeyPoints:
        listed = "\n\n".join(
            f"Summary {number}\n{fence(shown(report))}"
            for number, report in enumerate(reports, start=1)
        )
        prompt = self._prompts.fill("points", {"reports": listed, "question": question.text})
        completion = await self._asking.complete(
            replace(prompt, max_tokens=POINTS_TOKENS + THINKING), POINTS_SCHEMA
        )
        points = read_points(completion.text, reports)
        if points is None:
            log.info("points.unreadable model=%s reports=%d", self._asking.model, len(reports))
            return KeyPoints((), readable=False, usage=completion.usage)
        return KeyPoints(tuple(points), usage=completion.usage)


def shown(report: Report) -> str:
    """As the model sees it."""
    findings = [
        f"{number}. {_line(one.summary)} {_line(one.explanation)}".rstrip()
        for number, one in enumerate(report.findings, start=1)
    ]
    return "\n".join([_line(report.title), "", _line(report.summary), *findings])


def _fact(number: int, fact: Fact) -> str:
    kind = f" ({_line(fact.kind)})" if fact.kind else ""
    return f"{number}. {_line(fact.name)}{kind}: {_line(fact.text)}"


def _line(text: str) -> str:
    return " ".join(text.split())


# --- reading replies -----------------------------------------------------------------------------


def read_report(reply: str, facts: Sequence[Fact]) -> Report | None:
    """The last object that tells something; None: there is none. A finding that names no fact rests
    on those whose names it has, else on the first ones."""
    for value in reversed(list(values(without_thoughts(reply)))):
        if not isinstance(value, dict):
            continue
        found = {str(key).strip().casefold(): one for key, one in value.items()}
        title = cleaning.text(found.get("title"), TITLE)
        summary = cleaning.text(found.get("summary"), SUMMARY)
        if not summary or refuses(summary) or (isinstance(value, Cut) and "findings" not in found):
            continue
        told = found.get("findings")
        findings = [_finding(one, facts) for one in told] if isinstance(told, list) else []
        return Report(
            title or _line(summary)[:TITLE], summary, _within(found.get("rating"), 10.0),
            tuple(one for one in findings if one is not None)[:FINDINGS],
        )  # fmt: skip
    return None


def _finding(value: object, facts: Sequence[Fact]) -> Finding | None:
    if isinstance(value, str):
        value = {"summary": value}
    if not isinstance(value, dict):
        return None
    summary = cleaning.text(value.get("summary"), SUMMARY)
    explanation = cleaning.text(value.get("explanation"), SUMMARY)
    if not summary and not explanation:
        return None
    numbers = value.get("facts")
    told = [_whole(one) for one in numbers] if isinstance(numbers, list) else []
    refs = [facts[number - 1].ref for number in told if 0 < number <= len(facts)]
    if not refs:
        text = f"{summary} {explanation}".casefold()
        refs = [one.ref for one in facts if _named(one, text)] or [one.ref for one in facts[:3]]
    return Finding(summary or explanation, explanation if summary else "", _once(refs))


def _named(fact: Fact, text: str) -> bool:
    names = fact.name.split(" -- ") if fact.ref.kind is Kind.RELATION else [fact.name]
    return all(name.casefold() in text for name in names)


def read_points(reply: str, reports: Sequence[Report]) -> list[KeyPoint] | None:
    """None: the reply has no list of points at all."""
    found: list[KeyPoint] | None = None
    for value in values(without_thoughts(reply)):
        items = value.get("points") if isinstance(value, dict) else value
        if not isinstance(items, list):
            continue
        points = [_point(one, reports) for one in items[:MOST_POINTS]]
        found = [one for one in points if one is not None and one.score > 0]
    return found


def _point(value: object, reports: Sequence[Report]) -> KeyPoint | None:
    if not isinstance(value, dict):
        return None
    text = cleaning.text(value.get("point") or value.get("description"), POINT)
    number = _whole(value.get("summary")) or (1 if len(reports) == 1 else 0)
    if not text or not 0 < number <= len(reports):
        return None
    findings = reports[number - 1].findings
    which = _whole(value.get("finding"))
    told = [findings[which - 1]] if 0 < which <= len(findings) else findings
    refs = _once(ref for one in told for ref in one.refs)
    return KeyPoint(number - 1, text, _within(value.get("score"), 100.0), refs)


def _once(refs: Iterable[Ref]) -> tuple[Ref, ...]:
    return tuple(dict.fromkeys(refs))


def _number(value: object) -> float:
    """0 for what is none. Models write numbers as text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return 0.0
    try:
        number = float(str(value).strip().split("/")[0])
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0


def _within(value: object, most: float) -> float:
    return max(0.0, min(most, _number(value)))


def _whole(value: object) -> int:
    number = _number(value)
    return int(number) if abs(number) < 1e6 else 0
