"""What the replaying model answers: from the prompt and the recordings, always the same."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.llm.tokens import TiktokenTokenizer
from app.rules.extractor import extract
from app.rules.keyworder import keywords
from app.rules.profiler import RuleProfiler
from tests.bench.replay import forms
from tests.bench.replay.recordings import Library, Recording, as_json, normal
from tests.model_answers import input_text

SUMMARY_TOKENS = 600  # what LightRAG asks for; Heliograph names its own limit
_TITLES = (
    ("# Extract", "extract"), ("# Summarise", "summary"),
    ("# Find the search keywords", "keywords"),
    ("# Turn a question into search queries", "decompose"), ("# Find a short answer", "bridge"),
    ("# Decide which names", "judge"), ("# Write passages that could answer", "hyde"),
)  # fmt: skip
_QUERY = re.compile(r"(?:User Query|Query): *(.+)")
_NAME = re.compile(r"Name: *(.+)")
_LIST = re.compile(r"Description [Ll]ist:")
_LIMIT = re.compile(r"[Aa]t most (\d+) tokens")
_PLACE = re.compile(r"^Title: (.+)$", re.MULTILINE)

Messages = Sequence[Mapping[str, str]]


class NotRecorded(Exception):
    """No large model was ever asked this, and an invented answer would measure nothing."""


@dataclass(slots=True)
class Replay:
    """`answer` takes the messages of a chat request and gives the content of the reply."""

    library: Library
    asked: Counter[str] = field(default_factory=Counter)
    tokenizer: TiktokenTokenizer = field(default_factory=TiktokenTokenizer)

    async def answer(self, messages: Messages) -> str:
        kind = kind_of(messages)
        self.asked[kind] += 1
        last = messages[-1]["content"]
        match kind:
            case "extract":
                return self._extraction(messages)
            case "glean":
                recording = self._recorded(messages)
                return forms.gleaning_reply(recording, in_rows=_in_rows(messages))
            case "keywords":
                return _keywords(_QUERY.findall(last)[-1])
            case "summary":
                return await self._summary(messages)
            case "decompose":
                return self._decomposition(messages)
            case "bridge":
                return self._bridge(last)
        raise NotRecorded(f"No model's answer to a request of the kind '{kind}' was recorded.")

    def _extraction(self, messages: Messages) -> str:
        recording = self._recorded(messages) or self._ruled(messages)
        in_rows = _in_rows(messages)
        return forms.rows_reply(recording) if in_rows else forms.json_reply(recording)

    def _recorded(self, messages: Messages) -> Recording | None:
        passage = self.library.find(input_text(list(map(dict, messages))))
        return passage.recording if passage else None

    def _ruled(self, messages: Messages) -> Recording:
        """The built-in extractor sees what it would see inside Heliograph: the title apart, if the
        prompt tells it or the text is that of a known passage with its title above."""
        text = input_text(list(map(dict, messages)))
        told = _PLACE.search(messages[-1]["content"].partition("---Input Text---")[0])
        passage = self.library.find(text)
        title = told[1] if told else passage.title if passage else ""
        if passage and passage.title and text.startswith(f"{passage.title}\n"):
            text = text[len(passage.title) + 1 :]
        return forms.of_extraction(extract(title, (), text))

    async def _summary(self, messages: Messages) -> str:
        whole = "\n".join(message["content"] for message in messages)
        limit = _LIMIT.search(whole)
        name = _NAME.search(messages[-1]["content"])
        lines = _LIST.split(messages[-1]["content"])[-1].splitlines()
        completion = await RuleProfiler(self.tokenizer).summarise(
            name[1] if name else "", _descriptions(lines),
            limit=int(limit[1]) if limit else SUMMARY_TOKENS,
        )  # fmt: skip
        return completion.text

    def _decomposition(self, messages: Messages) -> str:
        """An upper bound: sub-questions as the makers of the set wrote them. Questions that are
        not known are left as they are, which is one of the answers that the prompt allows."""
        found = self.library.decomposition(messages[-1]["content"])
        if not found:
            return as_json({"kind": "none", "queries": []})
        queries = found.raw if "#1" in messages[0]["content"] else found.resolved
        return as_json({"kind": "decompose", "queries": queries})

    def _bridge(self, prompt: str) -> str:
        """The recorded answer of a sub-question, where a passage at hand holds it."""
        passages, _, question = prompt.rpartition("Question:")
        answer = self.library.bridges.get(normal(question.strip().strip("`").removeprefix("text")))
        held = answer and normal(answer) in normal(passages)
        return as_json({"answer": answer if held else ""})


def kind_of(messages: Messages) -> str:
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    last = messages[-1]["content"]
    if "missed" in last[:400] and len(messages) > 2:
        return "glean"
    for title, kind in _TITLES:
        if system.startswith(title):
            return kind
    if "high_level_keywords" in last:
        return "keywords"
    if "synthesize a list of descriptions" in last:
        return "summary"
    if "---Input Text---" in last:
        return "extract"
    return "other"


def _in_rows(messages: Messages) -> bool:
    return forms.FIELD in messages[0]["content"]


def _keywords(question: str) -> str:
    found = keywords(question.strip())
    return as_json({"high_level_keywords": found.high, "low_level_keywords": found.low})


def _descriptions(lines: Sequence[str]) -> list[str]:
    """Of a list with dashes, or of one JSON object a line."""
    found = []
    for line in lines:
        if line.startswith("{"):
            found += [str(value) for value in json.loads(line).values()]
        elif line.startswith("- "):
            found.append(line[2:])
    return found
