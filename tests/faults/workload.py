"""What clients do while the service breaks: documents are added, replaced and deleted, partly while
they are still on their way. A scenario is a number; the same number is always the same work."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

PATIENCE = 150.0  # seconds that a client repeats a request for
NAMES = (
    "Ada Lovelace", "Charles Babbage", "Marie Curie", "Pierre Curie", "Niels Bohr", "Max Planck",
    "Lise Meitner", "Otto Hahn", "Emmy Noether", "David Hilbert", "Copenhagen", "Paris", "Warsaw",
    "London", "Cambridge", "Berlin",
)  # fmt: skip
DEEDS = (
    "met", "wrote to", "worked with", "visited", "taught", "learned from", "disagreed with",
    "invited", "quoted", "praised",
)  # fmt: skip
WORDS = (
    "engine", "number", "theory", "lecture", "garden", "winter", "summer", "paper", "journal",
    "letter", "station", "morning", "window", "friend", "method", "result", "question", "machine",
)  # fmt: skip


@dataclass(frozen=True)
class Op:
    do: Literal["add", "delete", "wait", "pause"]
    documents: Mapping[str, str] = field(default_factory=dict)  # id -> text
    seconds: float = 0.0


@dataclass(frozen=True)
class Scenario:
    ops: tuple[Op, ...]
    survivors: Mapping[str, str]
    deleted: frozenset[str]


def paragraph(chance: random.Random, mark: str) -> str:
    """About 60 tokens that no other paragraph shares, with names that many share."""
    sentences = []
    for n in range(3):
        one, other = chance.sample(NAMES, 2)
        words = " ".join(chance.sample(WORDS, 4))
        sentences.append(f"{one} {chance.choice(DEEDS)} {other} about {words} in {mark}-{n}.")
    return " ".join(sentences)


def text(chance: random.Random, mark: str, paragraphs: int) -> list[str]:
    return [paragraph(chance, f"{mark}{n}") for n in range(paragraphs)]


def scenario(number: int) -> Scenario:
    """3 to 8 documents that share names; one is replaced and one deleted, each at rest or on its
    way."""
    chance = random.Random(f"scenario {number}")
    parts = {
        f"d{n}": text(chance, f"s{number}d{n}p", chance.choice((1, 1, 2, 6)))
        for n in range(chance.randint(3, 8))
    }
    longest = max(parts, key=lambda one: len(parts[one]))
    others = [one for one in parts if one != longest]
    replaced, deleted = chance.sample([longest, *others], 2)
    first = {one: "\n\n".join(paragraphs) for one, paragraphs in parts.items()}
    kept = parts[replaced][: (len(parts[replaced]) + 1) // 2]
    newer = "\n\n".join([*kept, *text(chance, f"s{number}new", chance.choice((1, 3)))])
    changes = [Op("add", {replaced: newer}), Op("delete", {deleted: ""})]
    chance.shuffle(changes)
    between = [Op("wait"), Op("pause", seconds=chance.uniform(0.0, 0.4)), Op("pause")]
    ops = [Op("add", first)]
    for change in changes:
        ops += [chance.choice(between), change]
    survivors = {**first, replaced: newer}
    del survivors[deleted]
    return Scenario(tuple(ops), survivors, frozenset((deleted,)))


class Client:
    """Repeats what the service could not take, as any client of a network service must."""

    def __init__(self, *urls: str) -> None:
        """Of one service, by any of its addresses."""
        self._urls = urls
        self._http = httpx.Client(timeout=httpx.Timeout(10.0, connect=2.0))
        self._requests = 0

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, **request: Any) -> Any:
        """The reply's JSON; None for 404."""
        reply = self._reply(method, path, **request)
        return None if reply.status_code == 404 else reply.json()

    def text(self, method: str, path: str, **request: Any) -> str:
        return self._reply(method, path, **request).text

    def _reply(self, method: str, path: str, **request: Any) -> httpx.Response:
        until = time.monotonic() + PATIENCE
        for url in itertools.cycle(self._urls):
            why = ""
            try:
                reply = self._http.request(method, url + path, **request)
                if reply.status_code < 400 or reply.status_code == 404:
                    return reply
                why = f"{reply.status_code} {reply.text[:300]}"
                if reply.status_code < 500 and reply.status_code != 429:
                    raise RuntimeError(f"{method} {path}: {why}")
            except httpx.TransportError as error:
                why = repr(error)
            if time.monotonic() > until:
                raise TimeoutError(f"{method} {path}: {why}")
            time.sleep(0.1)
        raise AssertionError("the cycle has no end")

    def run(self, ops: tuple[Op, ...]) -> None:
        for op in ops:
            if op.do == "add":
                self.add(op.documents)
            elif op.do == "delete":
                for one in op.documents:
                    self.call("DELETE", f"/documents/{one}")
            elif op.do == "wait":
                self.wait_idle()
            else:
                time.sleep(op.seconds)

    def add(self, documents: Mapping[str, str], client: str = "") -> None:
        self._requests += 1
        rows = [{"id": one, "name": one, "text": text} for one, text in documents.items()]
        self.call(
            "POST", "/documents", json={"documents": rows},
            headers={"Idempotency-Key": f"request-{client}-{self._requests}"},
        )  # fmt: skip

    def wait_idle(self, patience: float = PATIENCE) -> dict[str, int]:
        until = time.monotonic() + patience
        while True:
            counts: dict[str, int] = self.call("GET", "/documents/counts")
            if sum(counts.values()) == counts.get("ready", 0) + counts.get("failed", 0):
                return counts
            if time.monotonic() > until:
                raise TimeoutError(f"documents that reach no final state: {counts}")
            time.sleep(0.05)
