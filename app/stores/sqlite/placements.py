"""Names inside a transaction: what the fold counts of them, where it looks up what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sqlite3 import Connection

from app.domain import Placement
from app.folding import NameTally, Surface
from app.stores.counts import NameCount, name_tally_json, name_tally_of
from app.stores.placing import following, targets
from app.stores.sqlite.rows import listed


def placements_of(connection: Connection, workspace: str, keys: Iterable[str]) -> list[Placement]:
    """Where these names lead, to the end."""
    found = _placements(connection, workspace, keys)
    return following(found, wholes_of(connection, workspace, targets(found)))


def wholes_of(connection: Connection, workspace: str, keys: Iterable[str]) -> dict[str, str]:
    """What these names mean as a whole, of those that do not mean themselves."""
    rows = connection.execute(
        "select p.key, p.entity from json_each(:keys) k cross join placements p"
        " where p.workspace = :workspace and p.key = k.value and p.scope = ''",
        {"workspace": workspace, "keys": listed(sorted(keys))},
    )
    return {row["key"]: row["entity"] for row in rows}


def followers(connection: Connection, workspace: str, keys: Iterable[str]) -> list[tuple[str, str]]:
    """Names of which some mentions are placed to one of these, and to which."""
    rows = connection.execute(
        "select distinct p.key, p.entity from json_each(:keys) k"
        " cross join placements p indexed by placements_towards"
        " where p.workspace = :workspace and p.entity = k.value and p.scope <> ''",
        {"workspace": workspace, "keys": listed(sorted(keys))},
    )
    return [(row["key"], row["entity"]) for row in rows]


def _placements(connection: Connection, workspace: str, keys: Iterable[str]) -> list[Placement]:
    rows = connection.execute(
        "select p.key, p.scope, p.entity, p.name from json_each(:keys) k cross join placements p"
        " where p.workspace = :workspace and p.key = k.value",
        {"workspace": workspace, "keys": listed(sorted(keys))},
    )
    return [Placement(*row) for row in rows]


def count_names(
    connection: Connection, workspace: str, taken: Sequence[Surface], added: Sequence[Surface]
) -> None:
    """A name whose facts change is open for decisions from then on."""
    keys = listed(sorted({surface.key for surface in (*taken, *added)}))
    bound = {"workspace": workspace, "keys": keys}
    counts = {
        row["key"]: NameCount(
            key=row["key"], tally=name_tally_of(row["tally"]), mentions=row["mentions"]
        )
        for row in connection.execute(
            "select n.key, n.tally, n.mentions from json_each(:keys) k cross join names n"
            " where n.workspace = :workspace and n.key = k.value",
            bound,
        )
    }
    for sign, surfaces in ((-1, taken), (1, added)):
        for surface in surfaces:
            fresh = NameCount(key=surface.key, tally=NameTally())
            counts.setdefault(surface.key, fresh).count(surface, sign)
    connection.executemany(
        "insert into names (workspace, key, tally, mentions, facts, revision)"
        " values (:workspace, :key, :tally, :mentions, :facts, 1)"
        " on conflict (workspace, key) do update set tally = excluded.tally,"
        " mentions = excluded.mentions, facts = excluded.facts,"
        " revision = revision + (facts <> excluded.facts)",
        [
            {
                "workspace": workspace, "key": one.key, "tally": name_tally_json(one.tally),
                "mentions": one.mentions, "facts": one.facts,
            }
            for one in counts.values()
        ],
    )  # fmt: skip


def open_names(connection: Connection, workspace: str, keys: Iterable[str]) -> None:
    """Have decisions on these names taken anew."""
    connection.execute(
        "update names set revision = revision + 1"
        " where workspace = :workspace and key in (select value from json_each(:keys))",
        {"workspace": workspace, "keys": listed(sorted(keys))},
    )


def open_tied(connection: Connection, workspace: str, keys: Iterable[str], tie: str) -> None:
    """Of pairs among these names that wait for a passage with both, or may have lost it."""
    tied = connection.execute(
        "select p.one from json_each(:keys) k cross join pairs p indexed by pairs_tied"
        " where p.workspace = :workspace and p.tie = :tie and p.tie <> '' and p.one = k.value"
        # With "+", a pair is looked up once by its first name: the index would be asked for each
        # two of the names, which are millions in a long document.
        " and +p.other in (select value from json_each(:keys))",
        {"workspace": workspace, "keys": listed(sorted(keys)), "tie": tie},
    ).fetchall()
    if tied:
        open_names(connection, workspace, {row["one"] for row in tied})


def add_moves(
    connection: Connection, workspace: str, moves: Iterable[tuple[str, str, str]]
) -> None:
    """(name, entity that has its evidence, "") or ("", "", document): to be folded anew. What is
    on its way already begins again, since it may have passed."""
    connection.executemany(
        "insert into moves (workspace, name, entity, document_id) values (?, ?, ?, ?)"
        " on conflict do update set after = ''",
        [(workspace, *move) for move in moves],
    )
