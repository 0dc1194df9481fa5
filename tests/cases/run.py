"""One case in progress: its names, documents, replies and the service it speaks to."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from tests.cases.deployment import Deployment
from tests.cases.grounds import Grounds
from tests.cases.record import Case, Unusable

POLL = 0.05
LONGEST = 900.0  # seconds that a case may take in all
UNDISTURBED = ("start", "restart", "seed_graph", "proc", "redis", "clock", "fault", "key", "jwt")


class Failed(Exception):
    """The case has failed and cannot go on."""


@dataclass
class Doc:
    """A document under the name that the case gives it; `id` is "" when it was refused."""

    name: str
    workspace: str
    id: str = ""
    status: int = 0  # of the upload's reply
    content: bytes | None = None


@dataclass
class Reply:
    """What an upload, a query or an HTTP step was answered."""

    status: int
    headers: Mapping[str, str]
    text: str
    events: list[tuple[str, Any]] = field(default_factory=list)  # of a stream
    trips: dict[str, int] = field(default_factory=dict)  # round trips to each store meanwhile

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError:
            return None


@dataclass
class Span:
    """When a step ran (seconds since 1970, as the model server stamps its requests)."""

    op: str
    start: float
    end: float


@dataclass
class Run:
    case: Case
    grounds: Grounds
    service: Deployment
    prefix: str = ""  # of workspaces, where cases share a service
    names: dict[str, Any] = field(default_factory=dict)
    docs: dict[str, Doc] = field(default_factory=dict)
    replies: dict[str, list[Reply]] = field(default_factory=dict)  # of each step with that name
    spans: dict[str, list[Span]] = field(default_factory=dict)
    statuses: list[tuple[str, int]] = field(default_factory=list)  # of all replies to steps
    files: dict[str, list[str]] = field(default_factory=dict)
    traps: dict[str, Any] = field(default_factory=dict)
    starts: dict[str, tuple[bool, str]] = field(default_factory=dict)
    moments: dict[str, float] = field(default_factory=dict)  # `kill`, `retry`, `progress`
    env: dict[str, Any] = field(default_factory=dict)  # of the last start, as the case calls it
    processes: dict[str, int] = field(default_factory=lambda: {"api": 1, "worker": 0})
    touched: set[str] = field(default_factory=set)  # files that the case itself made
    began: float = field(default_factory=time.time)
    again: Callable[[Case], AbstractContextManager[Run]] | None = None  # another case, same stack
    printed: dict[str, Any] | None = None  # its fingerprint, once taken
    notes: list[str] = field(default_factory=list)
    deadline: float = field(default_factory=lambda: time.monotonic() + LONGEST)
    _turn: Iterator[int] = field(default_factory=itertools.count)

    def workspace(self, given: str | None) -> str:
        """ "" is the service's default one."""
        if not self.prefix:
            return given or ""
        return f"{self.prefix}-{given}" if given else self.prefix

    def workspaces(self) -> set[str]:
        return {doc.workspace for doc in self.docs.values()} | {self.workspace(None)}

    def doc(self, given: str) -> Doc:
        """By its name in the case, or by its id."""
        if given in self.docs:
            return self.docs[given]
        for doc in self.docs.values():
            if doc.id == given:
                return doc
        raise Unusable(f"no step made a document {given!r}")

    def reply(self, name: str) -> Reply:
        if name not in self.replies:
            raise Unusable(f"no step is called {name!r}")
        return self.replies[name][-1]

    def known(self, local: Mapping[str, Any]) -> dict[str, Any]:
        """What `{name}` may stand for."""
        ids = {name: doc.id for name, doc in self.docs.items()}
        return {**ids, **self.names, **local}

    def send(
        self,
        method: str,
        path: str,
        *,
        workspace: str = "",
        bare: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        **more: Any,
    ) -> httpx.Response:
        """One request, to each API process in turn. `bare`: without the runner's own key."""
        clients = self.service.clients
        if not clients:
            raise Failed("the service is not running")
        sent = {str(k).lower(): str(v) for k, v in (headers or {}).items()}
        if workspace:
            sent.setdefault("x-workspace", workspace)
        if self.service.secret and not bare and not sent.keys() & {"authorization", "x-api-key"}:
            sent["authorization"] = f"Bearer {self.service.secret}"
        client = clients[next(self._turn) % len(clients)]
        timeout = max(1.0, min(timeout, self.deadline - time.monotonic()))
        raw = [(k.encode(), v.encode("utf-8", "surrogatepass")) for k, v in sent.items()]
        return client.request(method, path, headers=raw, timeout=timeout, **more)

    def look(self, path: str, workspace: str = "", patience: float = 60.0, **params: Any) -> Any:
        """GET as JSON for the runner's own sake, through restarts; None for 404."""
        until = time.monotonic() + patience
        while True:
            try:
                reply = self.send("GET", path, workspace=workspace, params=params)
            except httpx.TransportError as error:
                if time.monotonic() > until:
                    raise Failed(f"GET {path}: {error!r}") from error
            else:
                if reply.status_code == 404:
                    return None
                if reply.status_code == 200:
                    return reply.json()
                if reply.status_code < 500 or time.monotonic() > until:
                    raise Failed(f"GET {path}: {reply.status_code} {reply.text[:200]}")
            time.sleep(0.2)

    def pages(self, path: str, what: str, workspace: str, **params: Any) -> list[Any]:
        found: list[Any] = []
        params = {"limit": 200, **params}
        while True:
            page = self.look(path, workspace, **params)
            if page is None:
                return found
            found += page[what]
            if not page["next"]:
                return found
            params["cursor"] = page["next"]

    def document(self, name: str) -> Any:
        """As the service shows it; None if it is not there."""
        doc = self.doc(name)
        return self.look(f"/documents/{quoted(doc.id)}", doc.workspace) if doc.id else None

    def asked(self, kind: str = "", step: str = "") -> list[dict[str, Any]]:
        """Model requests of a kind (""): all but embeddings), perhaps only during a step."""
        wanted = {"embed": "embedding", "llm": "", "all": "", "any": ""}.get(kind, kind)
        found = [
            one for one in self.grounds.asked()["requests"]
            if (one["kind"] == wanted if wanted else one["kind"] != "embedding")
        ]  # fmt: skip
        if step:
            spans = self.spans.get(step, [])
            found = [one for one in found if any(s.start <= one["at"] <= s.end for s in spans)]
        return found


def quoted(segment: str) -> str:
    return quote(segment, safe="")
