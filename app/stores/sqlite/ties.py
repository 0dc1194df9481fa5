"""Whether a passage uses two names, whatever entities they mean: decisions may depend on it, and
must not depend on what was decided before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from sqlite3 import Connection

from app.stores.sqlite.rows import listed

# Mentions under a name are of the entity that has it for its key, or of one with it as an alias.
_HOMES = """
    select k.value as name, e.seq, e.mentions from json_each(:keys) k cross join entities e
    where e.workspace = :workspace and e.key = k.value and e.mentions > 0
    union
    select k.value, e.seq, e.mentions
    from json_each(:keys) k cross join aliases a cross join entities e
    where a.workspace = :workspace and a.key = k.value and e.seq = a.entity
"""
# Cheap first: a mention under other names is not taken apart.
_USES = (
    "instr({0}.surfaces, :written_{1}) and exists (select 1 from json_each({0}.surfaces) s"
    " where json_extract(s.value, '$[0]') = :{1})"
)
_MEET = (
    "select 1 from json_each(:mine) h cross join mentions m cross join mentions n"
    f" where m.entity = h.value and {_USES.format('m', 'one')} and n.chunk = m.chunk"
    f" and n.entity in (select value from json_each(:theirs)) and {_USES.format('n', 'other')}"
    " limit 1"
)
Homes = dict[str, dict[int, int]]  # name -> entity -> its mentions


def together(
    connection: Connection, workspace: str, pairs: Sequence[tuple[str, str]]
) -> set[tuple[str, str]]:
    keys = sorted({key for pair in pairs for key in pair})
    homes: Homes = {key: {} for key in keys}
    for row in connection.execute(_HOMES, {"workspace": workspace, "keys": listed(keys)}):
        homes[row["name"]][row["seq"]] = row["mentions"]
    return {pair for pair in pairs if _meet(connection, homes, *pair)}


def _meet(connection: Connection, homes: Homes, one: str, other: str) -> bool:
    """A look-up for each mention of the rarer one's entities at most."""
    if sum(homes[one].values()) > sum(homes[other].values()):
        one, other = other, one
    found = connection.execute(
        _MEET,
        {
            "one": one, "written_one": _written(one), "mine": _listed(homes[one]),
            "other": other, "written_other": _written(other), "theirs": _listed(homes[other]),
        },
    )  # fmt: skip
    return found.fetchone() is not None


def _listed(seqs: Iterable[int]) -> str:
    return json.dumps(sorted(seqs))


def _written(key: str) -> str:
    """As it stands in `app.folding.surfaces_json`."""
    return json.dumps(key, ensure_ascii=False)
