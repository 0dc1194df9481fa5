"""Names of a workspace: what they mean, and who decided so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.domain import KnownName, Placement, Ruling
from app.resolution.settlement import Reviewed, Settlement


class Names(Protocol):
    """Which entity each name means. The fold keeps what is known of names (`app.folding`), a name
    whose facts changed is *open* until settled, and evidence follows placements by *moves*, batch
    by batch. All of it is durable: what a crash leaves behind, any later job carries on."""

    async def version(self) -> int:
        """Of all settlements so far; to be read before anything that a settlement is made from."""
        ...

    async def opened(self, *, limit: int) -> list[KnownName]:
        """Names whose facts changed since they were settled, gone ones too, in key order."""
        ...

    async def known(self, keys: Sequence[str]) -> list[KnownName]: ...

    async def members(self, entities: Sequence[str]) -> dict[str, list[str]]:
        """Entity key -> keys of other names that were placed there as a whole."""
        ...

    async def in_blocks(self, blocks: Sequence[str], *, limit: int) -> dict[str, list[str]]:
        """Names posted under each block, at most `limit` each, in key order."""
        ...

    async def pairs(self, keys: Sequence[str]) -> list[Reviewed]:
        """Recorded pairs with an end among these names."""
        ...

    async def together(self, pairs: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of the pairs that some chunk names both of, whatever the names mean. The fold opens
        names of recorded pairs whose `tie` may have changed."""
        ...

    async def rulings(self, keys: Sequence[str]) -> list[Ruling]:
        """With an end among these names; a user's hides a model's on the same pair."""
        ...

    async def settle(self, settlement: Settlement) -> bool:
        """One transaction; False, and nothing changes, if there was another settlement since the
        version it was made from, or a `tie` is not what it was. A name that changed meanwhile stays
        open."""
        ...

    async def rule(self, rulings: Sequence[Ruling]) -> None:
        """Record words on pairs of names, each replacing an earlier one of the same author; opens
        the names. A model's word on a name that is gone is dropped."""
        ...

    async def unrule(self, one: str, other: str) -> bool:
        """Take a user's word back; opens the names."""
        ...

    async def place(self, placements: Sequence[Placement], *, remove: bool = False) -> None:
        """By hand, scoped to documents (`app.folding.document_scope`): holds for what the document
        says now and in later revisions, until removed or the document is. Unknown documents are
        left out."""
        ...

    async def placed(self, *, after: str = "", limit: int = 100) -> list[Placement]:
        """Placements by hand in the order of `key` and `scope`, joined by a tab in `after`."""
        ...

    async def used_by(self, entity: str, *, limit: int) -> list[tuple[str, str]]:
        """(name key, document id) of the mentions that an entity has."""
        ...

    async def move(self, job_id: str, *, limit: int) -> int:
        """Fold up to `limit` chunks anew whose names were placed elsewhere; how many it looked at,
        0 when nothing is left to do."""
        ...

    async def moving(self) -> bool:
        """Whether evidence is still to be moved, or a job has ended before it was tidy."""
        ...

    async def adopt(self, job_id: str) -> None:
        """Take over what jobs that have ended moved and left untidy."""
        ...

    async def moved(self, job_id: str) -> bool:
        """Whether this job moved evidence: profiles and vectors of any document may be behind."""
        ...

    async def tidy(self, job_id: str) -> None:
        """Profiles and vectors followed what this job moved."""
        ...

    async def review(self, *, decision: str, after: str = "", limit: int = 50) -> list[Reviewed]:
        """Recorded pairs with a decision ("" any), best score first; `after` is the `place` of the
        last one seen."""
        ...
