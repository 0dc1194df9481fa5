"""The records of a case file, and the values in them."""

from __future__ import annotations

import base64
import builtins
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Unusable(Exception):
    """A case that cannot be carried out as written; the message names what is not understood."""


@dataclass(frozen=True)
class Case:
    id: str
    area: str
    title: str
    steps: tuple[dict[str, Any], ...]
    checks: tuple[dict[str, Any], ...]
    llm: Mapping[str, Any]
    embedding: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Case:
        checks = record.get("check", [])
        return cls(
            id=str(record["id"]),
            area=str(record.get("area", "")),
            title=str(record.get("title", "")),
            steps=tuple(record.get("steps", [])),
            checks=tuple(checks if isinstance(checks, list) else [checks]),
            llm=record.get("llm") or {},
            embedding=tuple(record.get("embedding") or ()),
        )

    def all_steps(self) -> list[dict[str, Any]]:
        """Also those inside others."""
        found, waiting = [], list(self.steps)
        while waiting:
            step = waiting.pop(0)
            found.append(step)
            inner = step.get("steps", step.get("do"))
            if isinstance(inner, (dict, list)):
                waiting += inner if isinstance(inner, list) else [inner]
        return found


def load(path: Path) -> list[Case]:
    """The cases of a JSON Lines file; blank lines do not count."""
    cases = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            cases.append(Case.of(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise Unusable(f"{path.name}:{number} is no case: {error!r}") from error
    return cases


def evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    """Case files are trusted like test code; names of the case are variables."""
    return eval(expression, {"__builtins__": builtins, **names})


def filled(value: Any, names: Mapping[str, Any]) -> Any:
    """`value` with `{name}` and `{"python": …}` replaced. Braces that name nothing stay."""
    match value:
        case str():
            return PLACEHOLDER.sub(lambda m: str(names.get(m[1], m[0])), value)
        case {"python": str(expression), **rest} if not rest:
            return evaluate(expression, names)
        case dict():
            return {filled(key, names): filled(one, names) for key, one in value.items()}
        case list():
            return [filled(one, names) for one in value]
        case _:
            return value


def filled_path(path: str, names: Mapping[str, Any]) -> str:
    """As `filled`, for the path of a request: a value is one segment."""
    return PLACEHOLDER.sub(
        lambda m: quote(str(names[m[1]]), safe="") if m[1] in names else m[0], path
    )


def file_bytes(file: Mapping[str, Any], names: Mapping[str, Any]) -> bytes:
    if "base64" in file:
        return base64.b64decode(file["base64"])
    content = evaluate(file["python"], names) if "python" in file else filled(file["text"], names)
    return content if isinstance(content, bytes) else str(content).encode()


def script(case: Case) -> dict[str, Any]:
    """What the model server is told: `always` without a list is for ever, a reranker's text raw."""
    llm: dict[str, Any] = {}
    for kind, answers in case.llm.items():
        if kind == "extract_match":
            matches = answers if isinstance(answers, list) else [answers]
            llm[kind] = [
                {**match, "always": _for_ever(match.get("always", match.get("answer")))}
                for match in matches
            ]
        elif kind == "rerank":
            llm[kind] = [_reranked(one) for one in _listed(answers)]
        elif kind != "format":  # our reader takes the line format whatever was asked for
            llm[kind] = _listed(answers)
    return {"llm": llm, "embedding": list(case.embedding)}


def _listed(answers: Any) -> list[Any]:
    return answers if isinstance(answers, list) else [answers]


def _for_ever(answers: Any) -> list[Any]:
    return answers if isinstance(answers, list) else [answers] * 10_000


def _reranked(answer: Any) -> Any:
    if isinstance(answer, str):
        return {"raw": answer, "content_type": "application/json"}
    if "content" in answer or "python" in answer:
        text = answer["content"] if "content" in answer else evaluate(answer["python"], {})
        kept = {k: v for k, v in answer.items() if k == "delay_s"}
        return {**kept, "raw": text, "content_type": "application/json"}
    return answer
