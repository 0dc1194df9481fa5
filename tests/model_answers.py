"""What the scripted model server answers by itself: from the prompt alone, always the same."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Mapping
from itertools import pairwise

TEXT_MARK = "---Input Text---"
TITLES = {
    "# Extract": "extract", "# Summarise": "summary", "# Find the search keywords": "keywords",
    "# Answer": "answer", "# Decide which names": "judge", "# Write passages": "hyde",
    "# Turn a question": "decompose", "# Find a short answer": "bridge",
    "# Compare two": "compare",
    "# Describe a collection": "describe", "# Name the users": "users",
    "# Name the tasks": "tasks", "# Write the questions": "questions",
    "# Find key points": "points",
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
        return _json(extraction(input_text(messages)))
    if kind in ("compare", "describe", "users", "tasks", "questions"):
        return evaluation(kind, messages[0]["content"], user)
    write = ANSWERS.get(kind)
    return write(user) if write else UNKNOWING


def points(user: str) -> list[dict[str, object]]:
    """The first sentence of each summary."""
    shown = re.findall(r"^Summary (\d+)\n(`{3,})\w*\n(.*?)\n\2$", user, re.S | re.M)
    return [
        {
            "point": SENTENCE.split(text.strip())[0],
            "score": 60,
            "summary": int(number),
            "finding": 0,
        }
        for number, _, text in shown
    ]


def summary(user: str) -> str:
    name = re.search(r"^Name: (.+)$", user, re.MULTILINE)
    facts = [line[2:] for line in _last_fence(user).splitlines() if line.startswith("- ")]
    return f"{name[1] if name else 'It'}: {len(facts)} facts. {' '.join(facts)[:300]}"


def answer(user: str) -> str:
    """The first sentence of the first source."""
    source = re.search(
        r"^### Source \[(\d+)\]\n(`{3,})\w*\n[^\n]*\n\n(.*?)\n\2$", user, re.S | re.M
    )
    if not source:
        return UNKNOWING
    return f"The documents say: {SENTENCE.split(source[3].strip())[0]} [{source[1]}]"


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


def passages(user: str) -> list[str]:
    """So many statements of what the question asks for."""
    count = re.search(r"^Number of passages: (\d+)$", user, re.MULTILINE)
    statement = re.sub(
        r"^(?:who|what|which|where|when|how|why)\b", "", _last_fence(user), flags=re.I
    )
    stated = f"{statement.strip(' ?')} is told here."
    return [f"{stated} Part {number}." for number in range(1, int(count[1]) + 1 if count else 2)]


def queries(question: str) -> dict[str, object]:
    """One query for each name; a question with one name is put well."""
    named = list(dict.fromkeys(names(question)))
    asked = " ".join(re.findall(r"\b[a-z]{4,}\b", question))
    if len(named) < 2:
        return {"kind": "none", "queries": []}
    return {"kind": "decompose", "queries": [f"{name} {asked}" for name in named[:4]]}


def short_answer(user: str) -> str:
    """The first name of the passages that the question does not have."""
    *shown, question = [text for _, text in FENCED.findall(user)]
    known = set(names(question))
    return next((name for text in shown for name in names(text) if name not in known), "")


def verdicts(user: str) -> list[dict[str, object]]:
    """Names with the same first word are one thing."""
    names = re.findall(r"^Pair (\d+)\n`+text\nA\. (\w+).*\nB\. (\w+)", user, re.MULTILINE)
    return [
        {"pair": int(pair), "answer": "same" if one == other else "different"}
        for pair, one, other in names
    ]


def evaluation(kind: str, system: str, user: str) -> str:
    """What a referee says: a longer answer is better, and lists are numbered."""
    if kind == "compare":
        return json.dumps({"verdicts": compared(user, system)})
    if kind == "describe":
        return "A collection about " + ", ".join(dict.fromkeys(names(user)))[:400] + "."
    asked = re.search(r"(?:Name|Write) (\d+) different", system)
    about = zlib.crc32(user.encode()) % 1000
    end = "?" if kind == "questions" else ""
    count = int(asked[1]) if asked else 1
    return json.dumps({kind: [f"{kind} {about} number {n}{end}" for n in range(count)]})


def compared(user: str, system: str) -> list[dict[str, str]]:
    """The longer answer is better, on every criterion that the prompt lists."""
    one, other = (len(text) for _, text in FENCED.findall(user)[-2:])
    better = "tie" if one == other else "1" if one > other else "2"
    return [
        {"criterion": name, "reason": "length", "better": better}
        for name in re.findall(r"^- (\w+): ", system, re.MULTILINE)
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


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


UNKNOWING = "This is the answer of a model that knows nothing."
ANSWERS: Mapping[str, Callable[[str], str]] = {
    "glean": lambda user: '{"entities": [], "relationships": []}',
    "keywords": lambda user: keywords(user.rpartition("Query:")[2].strip()),
    "hyde": lambda user: _json({"passages": passages(user)}),
    "decompose": lambda user: _json(queries(_last_fence(user))),
    "bridge": lambda user: _json({"answer": short_answer(user)}),
    "judge": lambda user: _json({"verdicts": verdicts(user)}),
    "summary": summary,
    "answer": answer,
    "points": lambda user: _json({"points": points(user)}),
    "community_report": lambda user: (
        '{"title": "A community", "summary": "Some things.", "rating": 5, "findings": []}'
    ),
}
