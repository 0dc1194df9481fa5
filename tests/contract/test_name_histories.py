"""Whatever happened to documents and names, what is left is what the survivors say."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain import Extraction, Placement, derive_id
from app.folding import document_scope
from tests import make
from tests.contract.conftest import Library, Stores

NAMES = ("ann", "bea", "cat", "dot")
DOCUMENTS = ("d0", "d1", "d2")

documents = st.sampled_from(DOCUMENTS)
names = st.sampled_from(NAMES)
entities = st.builds(
    make.entity, names, st.sampled_from(["", "one", "two"]),
    kind=st.sampled_from(["", "person", "work"]), aliases=st.lists(names, max_size=1),
)  # fmt: skip
relations = st.builds(
    make.relation, names, names, st.sampled_from(["", "near"]),
    keywords=st.lists(st.sampled_from(["k", "l"]), max_size=2),
    strength=st.sampled_from([1.0, 2.5]),
)  # fmt: skip
chunks = st.builds(
    lambda parts, about: make.extraction(*parts, about=about),
    st.lists(st.one_of(entities, relations), max_size=4), st.lists(names, max_size=1),
)  # fmt: skip
moves = st.one_of(
    st.tuples(st.just("ingest"), documents, st.lists(chunks, max_size=3)),
    st.tuples(st.just("ingest"), documents, st.lists(chunks, max_size=3)),
    st.tuples(st.just("delete"), documents),
    st.tuples(st.just("settle"), st.dictionaries(names, names, max_size=3)),
    st.tuples(st.just("place"), documents, names, st.sampled_from([*NAMES, "", "new"])),
    st.tuples(st.just("take back"), documents, names),
    st.tuples(st.just("move"), st.integers(1, 3)),
)


@dataclass
class History:
    """A library and what is to be left of all that was done to it."""

    library: Library
    said: dict[str, dict[str, Extraction]] = field(default_factory=dict)
    placed: dict[str, str] = field(default_factory=dict)
    by_hand: dict[tuple[str, str], Placement] = field(default_factory=dict)

    async def ingest(self, document: str, said: list[Extraction]) -> None:
        # A chunk's id stands for what it says.
        self.said[document] = {derive_id(document, "chunk", repr(one)): one for one in said}
        await self.library.ingest(document, self.said[document])

    async def delete(self, document: str) -> None:
        if self.said.pop(document, None) is not None:
            await self.library.delete(document)
            self.by_hand = {at: one for at, one in self.by_hand.items() if at[0] != document}

    async def settle(self, placed: dict[str, str]) -> None:
        for one in await self.library.names.opened(limit=100):
            if not one.mentions:
                self.placed.pop(one.key, None)
        assert await self.library.settle(placed)
        self.placed |= placed

    async def place(self, document: str, key: str, entity: str) -> None:
        shown = "New" if entity == "new" else ""
        placement = Placement(key, document_scope(document), entity, shown)
        await self.library.names.place([placement])
        if document in self.said:
            self.by_hand[document, key] = placement

    async def take_back(self, document: str, key: str) -> None:
        placement = Placement(key, document_scope(document), "")
        await self.library.names.place([placement], remove=True)
        self.by_hand.pop((document, key), None)

    async def do(self, what: str, *how: object) -> None:
        if what == "move":
            await self.library.names.move("mover", limit=how[0])  # type: ignore[arg-type]
        else:
            await getattr(self, what.replace(" ", "_"))(*how)

    async def end(self) -> None:
        await self.settle({})
        await self.library.move(limit=3)
        await self.settle({})  # what was placed nowhere may have been all of a name
        await self.library.move(limit=3)
        await self.library.forget_the_gone()

    async def retold(self, library: Library) -> None:
        """The survivors alone, with all decisions made before anything is folded."""
        await library.settle(self.placed)
        for document, said in self.said.items():
            await library.open(document)
            mine = [one for (where, _), one in self.by_hand.items() if where == document]
            await library.names.place(mine)
            await library.ingest(document, said)
        await library.settle()
        await library.move()
        await library.forget_the_gone()


async def known(library: Library) -> list[tuple[object, ...]]:
    return [
        (one.key, one.form, one.kind, one.aliases, one.mentions, dict(one.scopes))
        for one in await library.names.known(NAMES)
    ]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(done=st.lists(moves, max_size=14))
async def test_any_history_ends_as_if_the_survivors_had_come_alone(
    stores: Stores, done: list[tuple[object, ...]]
) -> None:
    history = History(Library.of(stores, make.name()))
    for what, *how in done:
        await history.do(str(what), *how)
    await history.end()
    fresh = Library.of(stores, make.name())
    await history.retold(fresh)
    assert await history.library.fingerprint() == await fresh.fingerprint()
    assert await known(history.library) == await known(fresh)
    assert await history.library.names.opened(limit=9) == []
