"""Documents and their revisions."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.ids import Metadata
from app.domain.jobs import Job, Status, Usage


@dataclass(frozen=True, slots=True)
class Revision:
    """One uploaded version of a document. `source` and `text` are blob keys (SHA-256)."""

    name: str
    media_type: str
    size: int
    source: str
    metadata: Metadata = field(default_factory=dict)
    date: str = ""  # ISO 8601; "" means the time of upload
    title: str = ""  # found by the parser
    text: str = ""  # "" until parsed


@dataclass(frozen=True, slots=True)
class Document:
    """A document: the revision that queries see (`live`), the coming one (`pending`), or both."""

    id: str
    version: int  # of `live`; 0 means nothing is visible yet
    live: Revision | None
    pending: Revision | None
    job: Job  # the latest
    chunks: int = 0  # visible ones
    warnings: tuple[str, ...] = ()
    usage: Usage = Usage()
    created_at: float = 0.0
    updated_at: float = 0.0
    superseded: tuple[Revision, ...] = ()  # only in what `Documents.submit` returns

    @property
    def revision(self) -> Revision:
        """What to show of it: the visible revision, else the coming one."""
        revision = self.live or self.pending
        assert revision is not None, "a document has at least one revision"
        return revision

    @property
    def coming(self) -> Revision:
        """What work in progress is about: the coming revision, else the visible one."""
        revision = self.pending or self.live
        assert revision is not None, "a document has at least one revision"
        return revision

    @property
    def status(self) -> Status:
        return self.job.status
