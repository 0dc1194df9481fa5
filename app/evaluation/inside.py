"""The engine of this process as a target, on the documents that its workspace has."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from app import __version__
from app.domain import Mode, Question
from app.errors import Invalid
from app.evaluation.metrics import Found
from app.evaluation.questions import Passage
from app.evaluation.targets import Ingested, Reply, Retrieval, Told, Variant
from app.ports import Models, Workspace
from app.query import engine
from app.query.engine import Answered

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")

# Of a question: what a mode may not change.
_FIXED = frozenset({"text", "workspace", "mode", "documents", "history", "keywords"})
_NAMES = {"asr": "anchoring"}  # options that a question calls otherwise than the API does


class EngineTarget:
    """Implements `app.evaluation.targets.Target`. The workspace is measured as it is."""

    name = "heliograph"

    def __init__(self, workspace: Workspace, models: Models) -> None:
        self._workspace, self._models = workspace, models

    async def describe(self) -> Mapping[str, str]:
        models = self._models
        return {
            "heliograph": __version__,
            "extractor": models.extractor.version,
            "embedder": models.embedder.model,
            "answerer": models.answerer.model or "none",
        }

    async def ingest(self, passages: Sequence[Passage], told: Told) -> Ingested:
        raise Invalid("What is measured here are the documents that are in the workspace.")

    async def discard(self) -> None:
        """Nothing was stored."""

    async def retrieve(self, question: str, variant: Variant) -> Retrieval:
        got, ms = await self._ask(question, variant, only_context=True)
        context = got.context
        return Retrieval(
            chunks=tuple(
                Found(one.chunk.document_id, one.document_name, one.chunk.text)
                for one in context.sources
            ),
            entities=tuple(one.entity.name for one in context.entities),
            triples=tuple(
                (
                    one.relation.source_name, ", ".join(one.relation.keywords),
                    one.relation.target_name,
                )
                for one in context.relations
            ),
            tokens=context.tokens, usage=got.usage, ms=ms,
        )  # fmt: skip

    async def answer(self, question: str, variant: Variant) -> Reply:
        got, ms = await self._ask(question, variant, only_context=False)
        return Reply(got.answer, got.notice != engine.NOTHING_FOUND, got.usage, ms)

    async def _ask(
        self, question: str, variant: Variant, *, only_context: bool
    ) -> tuple[Answered, float]:
        asked = question_of(question, self._workspace.name, variant)
        began = time.perf_counter()
        got = await engine.answer(self._workspace, self._models, asked, only_context=only_context)
        return got, 1000 * (time.perf_counter() - began)


def question_of(text: str, workspace: str, variant: Variant) -> Question:
    """Raises `Invalid` for a mode or option that there is not. Limits of options are the API's."""
    try:
        mode = Mode(variant.mode)
    except ValueError:
        known = ", ".join(Mode)
        raise Invalid(f"There is no mode {variant.mode}; known are {known}.") from None
    plain = Question(text, workspace, mode)
    if unknown := _FIXED.intersection(variant.options):
        raise Invalid(f"{variant.label}: {min(unknown)} is no option that can be measured.")
    return _with(plain, variant.options, variant.label)


def _with(plain: Options, options: Mapping[str, object], label: str) -> Options:
    """The dataclass with other values of the same types; a mapping is of a field that is one."""
    known = {one.name for one in fields(plain)}
    changes: dict[str, object] = {}
    for given, value in options.items():
        name = _NAMES.get(given, given)
        present = getattr(plain, name) if name in known else None
        if is_dataclass(present) and not isinstance(present, type) and isinstance(value, Mapping):
            changes[name] = _with(present, value, label)
        elif isinstance(present, tuple):
            changes[name] = tuple(value) if isinstance(value, list) else (value,)
        elif isinstance(present, Mode) and value in list(Mode):
            changes[name] = Mode(str(value))
        elif type(value) is type(present) or (type(present), type(value)) == (float, int):
            changes[name] = value
        else:
            raise Invalid(f"{label}: a question has no option {given} with such a value.")
    return replace(plain, **changes)
