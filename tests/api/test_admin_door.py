"""Whoever may not administer is told that, wherever under /admin they knock."""

from __future__ import annotations

import pytest

from tests.api.conftest import Site, assert_problem


async def _key(site: Site, scope: str, secret: str = "") -> str:
    headers = {"X-API-Key": secret} if secret else {}
    reply = await site.client.post("/admin/keys", json={"scope": scope}, headers=headers)
    assert reply.status_code == 201
    return str(reply.json()["secret"])


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/admin/workspaces", 405),
        ("PUT", "/admin/keys", 405),
        ("POST", "/admin/settings", 404),
        ("GET", "/admin/", 404),
    ],
)
async def test_what_is_not_there_is_forbidden_all_the_same(
    site: Site, prefix: str, method: str, path: str, status: int
) -> None:
    admin = await _key(site, "admin")
    write = await _key(site, "write", admin)
    path = prefix + path
    bare = await site.client.request(method, path)
    assert_problem(bare, 401, "unauthenticated")
    forbidden = await site.client.request(method, path, headers={"X-API-Key": write})
    assert_problem(forbidden, 403, "scope_missing")
    absent = await site.client.request(method, path, headers={"X-API-Key": admin})
    assert absent.status_code == status
    assert ("allow" in absent.headers) == (status == 405)
