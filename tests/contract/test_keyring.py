"""API keys, and the workspaces that there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.domain import Scope
from app.errors import Conflict
from app.ports import Keyring
from tests import make
from tests.contract.conftest import Library, Stores


async def test_a_key_is_found_by_its_digest_until_it_is_revoked(keyring: Keyring) -> None:
    key = make.api_key(scope=Scope.WRITE, workspaces=["a", 'b"{}'])
    for _ in range(2):
        await keyring.add(key)
    assert await keyring.find(key.digest) == key
    assert await keyring.find("unknown") is None
    assert [one for one in await keyring.all() if one.id == key.id] == [key]
    assert await keyring.revoke(key.id)
    assert not await keyring.revoke(key.id)
    assert await keyring.find(key.digest) is None
    assert key.id not in {one.id for one in await keyring.all()}


async def test_a_secret_belongs_to_one_key(keyring: Keyring) -> None:
    key = make.api_key()
    await keyring.add(key)
    with pytest.raises(Conflict):
        await keyring.add(replace(key, id=make.name("other")))
    assert await keyring.find(key.digest) == key


async def test_workspaces_are_those_that_hold_documents(
    keyring: Keyring, library: Library, neighbour: Library
) -> None:
    for n in range(3):
        await library.open(f"d{n}")
    await neighbour.ingest("d", {})
    names = await keyring.workspaces()
    assert names == sorted(set(names))
    assert {library.name, neighbour.name} <= set(names)
    await neighbour.delete("d")
    assert neighbour.name not in await keyring.workspaces()


async def test_an_open_store_says_which_version_it_is(stores: Stores) -> None:
    assert any(character.isdigit() for character in await stores.ping())
