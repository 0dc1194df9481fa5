"""The extractor played by a language model: one call per chunk, and rounds for what was missed."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.domain import Completion, Extraction, Options, Prompt, Turn, Usage
from app.errors import BadModelOutput, Invalid
from app.llm.chat import REPLY_SHARE, ChatModel
from app.llm.dialects import Schema
from app.llm.reader import Reading, read_extraction, refuses
from app.prompts import Prompts, fence

log = logging.getLogger("heliograph.llm")

SHORTEST_HALF = 200  # characters; a shorter text is not divided
MAX_DEPTH = 3  # divisions of one chunk: at most 8 parts
SHOWN_BACK = 4000  # characters of an unreadable reply that the repair call shows the model

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


def _record(**properties: object) -> Schema:
    # Strict mode of OpenAI's structured output: all properties required, no others allowed.
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCHEMA = _record(
    entities={
        "type": "array",
        "items": _record(name=_TEXT, type=_TEXT, aliases=_TEXTS, description=_TEXT),
    },
    relationships={
        "type": "array",
        "items": _record(
            source=_TEXT, target=_TEXT, description=_TEXT, keywords=_TEXTS,
            strength={"type": "number"},
        ),
    },
)  # fmt: skip


class LlmExtractor:
    """Port `Extractor`. A reply that cannot be read is asked for twice more, then `BadModelOutput`;
    one that breaks off in the middle is made good by halves of the text."""

    by_model = True

    def __init__(self, model: ChatModel, prompts: Prompts, options: Options) -> None:
        self._model, self._prompts, self._options = model, prompts, options
        self._reply_tokens = model.context_tokens // REPLY_SHARE

    @property
    def version(self) -> str:
        wording = (
            *(self._prompts.digest(name) for name in ("extract", "glean", "repair")),
            *self._options.entity_kinds, self._options.language, str(self._options.gleanings),
            self._model.form,
        )  # fmt: skip
        digest = hashlib.sha256("\x1f".join(wording).encode()).hexdigest()[:12]
        return f"{self._model.model}:{digest}"

    async def extract(self, title: str, headings: Sequence[str], text: str) -> Extraction:
        found = await self._read(_Passage(title, tuple(headings), text), depth=0)
        dropped = found.reading.dropped
        if dropped:
            log.info(
                "extraction.dropped model=%s records=%d reasons=%s",
                self._model.model, dropped.total(), dict(dropped),
            )  # fmt: skip
        return found.reading.extraction(model=self._model.model, usage=found.usage)

    async def _read(self, passage: _Passage, depth: int) -> _Found:
        prompt = self._prompt(passage)
        if self._model.tokens(prompt) > self._model.prompt_room and passage.divisible(depth):
            # Some servers cut a prompt that is too long, and say nothing.
            return await self._halves(passage, depth)
        try:
            completion = await self._model.complete(prompt, SCHEMA)
        except Invalid:  # more than the model's context
            if not passage.divisible(depth):
                raise
            return await self._halves(passage, depth)
        cut = completion.finish_reason == "length"
        reading = read_extraction(completion.text, cut=cut)
        found = _Found(reading, completion.usage)
        if cut and not reading.relations and passage.divisible(depth):
            return found.plus(await self._halves(passage, depth))
        if not reading.readable:
            return await self._repaired(prompt, completion)
        if cut:
            return await self._continued(prompt, completion.text, found)
        return await self._gleaned(prompt, completion.text, found)

    async def _halves(self, passage: _Passage, depth: int) -> _Found:
        first, second = passage.halves()
        return (await self._read(first, depth + 1)).plus(await self._read(second, depth + 1))

    async def _repaired(self, prompt: Prompt, completion: Completion) -> _Found:
        """Shows the model what cannot be read; if that does not help, asks once more from the
        start, where its bad reply does not lead it on."""
        usage = completion.usage
        said = completion.text[:SHOWN_BACK] or "(nothing)"
        for again in (self._follow_up("repair", prompt, said), prompt):
            completion = await self._model.complete(again, SCHEMA)
            usage += completion.usage
            cut = completion.finish_reason == "length"
            reading = read_extraction(completion.text, cut=cut)
            if reading.readable:
                return _Found(reading, usage)
            if refuses(completion.text):
                raise BadModelOutput("the model refuses to read this passage", code="model_refused")
        raise BadModelOutput(
            "the model's reply for this passage holds no entities or relations that can be read"
        )

    async def _continued(self, prompt: Prompt, reply: str, found: _Found) -> _Found:
        """After a reply that broke off at its length limit with some relations: asks once for what
        is missing, unless the model was only repeating itself."""
        again = self._follow_up("glean", prompt, reply)
        if _repeats(reply) or self._model.tokens(again) > self._model.prompt_room:
            return found
        completion = await self._model.complete(again, SCHEMA)
        reading = read_extraction(completion.text, cut=completion.finish_reason == "length")
        return found.plus(_Found(reading, completion.usage))

    async def _gleaned(self, prompt: Prompt, reply: str, found: _Found) -> _Found:
        for _ in range(self._options.gleanings):
            prompt = self._follow_up("glean", prompt, reply)
            if self._model.tokens(prompt) > self._model.prompt_room:
                break
            completion = await self._model.complete(prompt, SCHEMA)
            reading = read_extraction(completion.text, cut=completion.finish_reason == "length")
            found = found.plus(_Found(reading, completion.usage))
            if not reading.entities and not reading.relations:
                break
            reply = completion.text
        return found

    def _follow_up(self, name: str, prompt: Prompt, reply: str) -> Prompt:
        return replace(
            prompt,
            history=(*prompt.history, Turn("user", prompt.user), Turn("assistant", reply)),
            user=self._prompts.fill(name, {}).user,
        )

    def _prompt(self, passage: _Passage) -> Prompt:
        language = self._options.language
        spoken = language or "the language of the passage"
        filled = self._prompts.fill(
            "extract",
            {
                "kinds": ", ".join(self._options.entity_kinds),
                "language": f"Descriptions and keywords: in {spoken}. Names: as the passage writes "
                "them, whatever that language is.",
                "place": passage.place,
                "text": fence(passage.text),
            },
        )
        return replace(filled, max_tokens=self._reply_tokens)


def _repeats(reply: str) -> bool:
    """Whether what stands near its end stands in it again and again."""
    return len(reply) > 400 and reply.count(reply[-150:-50]) > 2


@dataclass(frozen=True, slots=True)
class _Passage:
    title: str
    headings: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        """Title and headings are the document's words, too, and fenced like them."""
        lines = [f"Title: {self.title}"] if self.title else []
        lines += [f"Headings: {' > '.join(self.headings)}"] if self.headings else []
        return fence("\n".join(" ".join(line.split()) for line in lines)) if lines else ""

    def divisible(self, depth: int) -> bool:
        return depth < MAX_DEPTH and len(self.text) >= 2 * SHORTEST_HALF

    def halves(self) -> tuple[_Passage, _Passage]:
        """Cut near the middle at a paragraph, line, sentence or blank, the best there is."""
        middle, reach = len(self.text) // 2, len(self.text) // 4
        for mark in ("\n\n", "\n", ". ", "。", " "):
            place = self.text.rfind(mark, middle - reach, middle + reach)
            if place >= 0:
                middle = place + len(mark)
                break
        return replace(self, text=self.text[:middle]), replace(self, text=self.text[middle:])


@dataclass(frozen=True, slots=True)
class _Found:
    """What one or several replies hold together."""

    reading: Reading
    usage: Usage

    def plus(self, other: _Found) -> _Found:
        return _Found(self.reading.plus(other.reading), self.usage + other.usage)
