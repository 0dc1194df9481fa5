"""What the scripted model server answers by itself: from the prompt alone, always the same."""

from __future__ import annotations

import json
import math
import re
import zlib
from itertools import pairwise

TEXT_MARK = "---Input Text---"
TITLES = {
    "# Extract": "extract", "# Summarise": "summary", "# Find the search keywords": "keywords",
    "# Answer": "answer", "# Decide which names": "judge",
}  # fmt: skip
NAME = re.compile(r"[A-Z][\w'’-]*(?: (?:of |the |de )?[A-Z][\w'’-]*)*")
SENTENCE = re.compile(r"(?<=[.!?])\s+")
FENCED = re.compile(r"^(`{3,})\w*\n(.*?)\n\1$", re.DOTALL | re.MULTILINE)
STARTERS = frozenset(
    re.findall(
        r"\w+",
        "The A An In On At By For From Of To And But Or It He She They We I You His Her Their "
        "This That These Those There When While After Before What Which Who Where Why How Is Are",
    )
)


def kind_of(messages: list[dict[str, str]]) -> str:
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    user = messages[-1]["content"]
    if system.startswith("# Extract") and user.startswith("Some entities"):
        return "glean"
    for title, kind in TITLES.items():
        if system.startswith(title):
            return kind
    if "community" in system.lower() and "report" in system.lower():
        return "community_report"
    return "other"


def input_text(messages: list[dict[str, str]]) -> str:
    """The chunk that an extraction prompt shows."""
    first = next(m["content"] for m in messages if m["role"] == "user")
    return _last_fence(first.rpartition(TEXT_MARK)[2])


def content_of(kind: str, messages: list[dict[str, str]]) -> str:
    user = messages[-1]["content"]
    if kind == "extract":
        return json.dumps(extraction(input_text(messages)), ensure_ascii=False)
    if kind == "glean":
        return '{"entities": [], "relationships": []}'
    if kind == "keywords":
        return keywords(user.rpartition("Query:")[2].strip())
    if kind == "judge":
        return json.dumps({"verdicts": verdicts(user)})
    if kind == "summary":
        name = re.search(r"^Name: (.+)$", user, re.MULTILINE)
        facts = [line[2:] for line in _last_fence(user).splitlines() if line.startswith("- ")]
        return f"{name[1] if name else 'It'}: {len(facts)} facts. {' '.join(facts)[:300]}"
    if kind == "community_report":
        return '{"title": "A community", "summary": "Some things.", "rating": 5, "findings": []}'
    source = re.search(
        r"^### Source \[(\d+)\]\n(`{3,})\w*\n[^\n]*\n\n(.*?)\n\2$", user, re.S | re.M
    )
    if kind == "answer" and source:
        return f"The documents say: {SENTENCE.split(source[3].strip())[0]} [{source[1]}]"
    return "This is the answer of a model that knows nothing."


def extraction(text: str) -> dict[str, list[dict[str, object]]]:
    entities: dict[str, str] = {}
    relations: dict[tuple[str, str], str] = {}
    for sentence in SENTENCE.split(" ".join(text.split())):
        here = list(dict.fromkeys(names(sentence)))
        for name in here:
            entities.setdefault(name, sentence)
        for one, other in pairwise(here):
            relations.setdefault((one, other), sentence)
    return {
        "entities": [
            {"name": name, "type": "concept", "aliases": [], "description": sentence}
            for name, sentence in entities.items()
        ],
        "relationships": [
            {
                "source": one, "target": other, "description": sentence, "strength": 5,
                "keywords": [w for w in re.findall(r"\b[a-z]{5,}\b", sentence)][:3],
            }
            for (one, other), sentence in relations.items()
        ],
    }  # fmt: skip


def names(text: str) -> list[str]:
    found = []
    for run in NAME.findall(text):
        words = run.split()
        while words and words[0] in STARTERS:
            words.pop(0)
        if words and len(" ".join(words)) > 1:
            found.append(" ".join(words).rstrip("'’"))
    return found


def keywords(question: str) -> str:
    themes = [word for word in re.findall(r"\b[a-z]{5,}\b", question)][:4]
    return json.dumps({"high_level_keywords": themes, "low_level_keywords": names(question)[:6]})


def verdicts(user: str) -> list[dict[str, object]]:
    """Names with the same first word are one thing."""
    names = re.findall(r"^Pair (\d+)\n`+text\nA\. (\w+).*\nB\. (\w+)", user, re.MULTILINE)
    return [
        {"pair": int(pair), "answer": "same" if one == other else "different"}
        for pair, one, other in names
    ]


def vector(text: str, dim: int) -> list[float]:
    """Signed hashed bag of words at unit length."""
    values = [0.0] * dim
    for word in re.findall(r"\w+", text.lower()):
        slot = zlib.crc32(word.encode())
        values[(slot >> 1) % dim] += 1.0 if slot & 1 else -1.0
    norm = math.hypot(*values)
    if not norm:
        return [1.0, *[0.0] * (dim - 1)]
    return [value / norm for value in values]


def tokens(text: str) -> int:
    return (len(text) + 3) // 4


def _last_fence(text: str) -> str:
    found = FENCED.findall(text)
    return found[-1][1] if found else text
