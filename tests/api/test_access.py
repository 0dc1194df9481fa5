"""Who may do what, where: every route against no key, wrong keys, and other workspaces."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import httpx
import pytest

from app.api.auth import TTL, Gate, make_key
from app.domain import Scope
from app.errors import Misconfigured
from app.main import create_app, refuse_open_door
from app.settings import Settings
from tests.api.conftest import Site, assert_problem

QUESTION = {"query": "What is amber?", "only_context": True}
MEASURED = {"modes": ["naive"], "questions": [{"question": "What is amber?"}]}
SPLIT = {"groups": [{"names": ["amber"]}]}
# Method, path, body, the scope it needs; `{id}` and `{job}` are those of another workspace.
ROUTES: list[tuple[str, str, object, Scope]] = [
    ("POST", "/documents", {"text": "Basalt is a rock."}, Scope.WRITE),
    ("POST", "/documents/estimate", {"text": "Basalt is a rock."}, Scope.READ),
    ("GET", "/documents", None, Scope.READ),
    ("GET", "/documents/counts", None, Scope.READ),
    ("POST", "/documents/delete", {"ids": ["amber"]}, Scope.WRITE),
    ("GET", "/documents/{id}", None, Scope.READ),
    ("DELETE", "/documents/{id}", None, Scope.WRITE),
    ("GET", "/documents/{id}/text", None, Scope.READ),
    ("GET", "/documents/{id}/chunks", None, Scope.READ),
    ("GET", "/documents/{id}/original", None, Scope.READ),
    ("POST", "/documents/{id}/retry", None, Scope.WRITE),
    ("POST", "/documents/{id}/chunks/any/retry", None, Scope.WRITE),
    ("POST", "/documents/{id}/cancel", None, Scope.WRITE),
    ("GET", "/documents/{id}/events", None, Scope.READ),
    ("GET", "/jobs", None, Scope.READ),
    ("GET", "/jobs/{job}", None, Scope.READ),
    ("POST", "/jobs/{job}/cancel", None, Scope.WRITE),
    ("GET", "/jobs/{job}/events", None, Scope.READ),
    ("POST", "/query", QUESTION, Scope.READ),
    ("POST", "/query/context", QUESTION, Scope.READ),
    ("GET", "/graph/entities", None, Scope.READ),
    ("GET", "/graph/entities/amber", None, Scope.READ),
    ("GET", "/graph/relation?source=amber&target=baltic%20sea", None, Scope.READ),
    ("GET", "/graph/subgraph?entity=amber", None, Scope.READ),
    ("GET", "/graph/stats", None, Scope.READ),
    ("GET", "/graph/resolution", None, Scope.READ),
    ("GET", "/graph/resolution/pair?one=onyx&other=onyxes", None, Scope.READ),
    ("PUT", "/graph/resolution", {"one": "onyx", "other": "jet", "same": True}, Scope.WRITE),
    ("DELETE", "/graph/resolution?one=onyx&other=jet", None, Scope.WRITE),
    ("POST", "/graph/entities/merge", {"entities": ["onyx", "jet"]}, Scope.WRITE),
    ("POST", "/graph/entities/amber/split", SPLIT, Scope.WRITE),
    ("DELETE", "/graph/entities/amber", None, Scope.WRITE),
    ("GET", "/graph/edits", None, Scope.READ),
    ("DELETE", "/graph/edits?name=onyx", None, Scope.WRITE),
    ("POST", "/graph/communities", None, Scope.WRITE),
    ("GET", "/graph/communities", None, Scope.READ),
    ("GET", "/graph/communities/any", None, Scope.READ),
    ("POST", "/evaluations", MEASURED, Scope.WRITE),
    ("GET", "/evaluations", None, Scope.READ),
    ("GET", "/evaluations/any", None, Scope.READ),
    ("DELETE", "/evaluations/any", None, Scope.WRITE),
    ("GET", "/admin/workspaces", None, Scope.ADMIN),
    ("GET", "/admin/workspaces/mine/fingerprint", None, Scope.ADMIN),
    ("GET", "/admin/workspaces/mine/backup", None, Scope.ADMIN),
    ("POST", "/admin/workspaces/mine/restore", None, Scope.ADMIN),
    ("POST", "/admin/workspaces/mine/check", None, Scope.ADMIN),
    ("POST", "/admin/workspaces/mine/rebuild", None, Scope.ADMIN),
    ("POST", "/admin/reindex", {}, Scope.ADMIN),
    ("GET", "/admin/reindex", None, Scope.ADMIN),
    ("DELETE", "/admin/reindex", None, Scope.ADMIN),
    ("GET", "/admin/keys", None, Scope.ADMIN),
    ("POST", "/admin/keys", {"scope": "read", "workspaces": ["mine"]}, Scope.ADMIN),
    ("DELETE", "/admin/keys/{key}", None, Scope.ADMIN),
]
OPEN = {"/healthz", "/readyz", "/metrics"}
EVERYWHERE = {"/admin/reindex"}  # about all workspaces, so not for a key of one
TEXT = "Amber is a fossil resin. Amber is found at the Baltic Sea by Johanna Weber."


async def test_the_table_has_every_route(site: Site) -> None:
    paths = site.app.openapi()["paths"]
    served = {
        (method.upper(), path.removeprefix("/v1"))
        for path, operations in paths.items()
        for method, operation in operations.items()
        if "chat" not in operation["tags"]  # whose errors look otherwise: see test_chat.py
    }
    named = {
        "{id}": "{document_id}",
        "chunks/any": "chunks/{chunk_id}",
        "{job}": "{job_id}",
        "{key}": "{key_id}",
        "evaluations/any": "evaluations/{evaluation_id}",
        "communities/any": "communities/{community_id}",
        "entities/amber": "entities/{entity_id}",
        "workspaces/mine/": "workspaces/{workspace}/",
    }
    table = set()
    for method, path, _, _ in ROUTES:
        plain = path.partition("?")[0]
        for short, name in named.items():
            plain = plain.replace(short, name)
        table.add((method, plain))
    assert served - table == {("GET", path) for path in OPEN}
    assert table <= served


async def send(
    site: Site, method: str, path: str, body: object, headers: dict[str, str]
) -> httpx.Response:
    return await site.client.request(method, path, json=body, headers=headers)


@pytest.fixture
async def guarded(site: Site) -> Site:
    """A service with keys, and a document in the workspace `theirs`."""
    await site.key(Scope.ADMIN)
    headers = {**await site.key(Scope.WRITE, "theirs"), "X-Workspace": "theirs"}
    reply = await site.client.post(
        "/documents", json={"text": TEXT, "id": "amber"}, headers=headers
    )
    assert reply.status_code == 202
    site.job = reply.json()["documents"][0]["job_id"]  # type: ignore[attr-defined]
    await site.work()
    return site


def theirs(site: Site, path: str) -> str:
    job: str = site.job  # type: ignore[attr-defined]
    return path.replace("{id}", "amber").replace("{job}", job).replace("{key}", "none")


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_no_route_answers_without_a_key_or_with_a_wrong_one(
    guarded: Site, prefix: str
) -> None:
    for method, path, body, _ in ROUTES:
        url = prefix + theirs(guarded, path)
        reply = await send(guarded, method, url, body, {})
        assert_problem(reply, 401, "unauthenticated", "Authorization")
        assert reply.headers["www-authenticate"] == "Bearer"
        for headers in (
            {"Authorization": "Bearer hg_nosuchkey_0123456789"},
            {"X-API-Key": "hg_nosuchkey_0123456789"},
        ):
            reply = await send(guarded, method, url, body, headers)
            assert_problem(reply, 401, "unknown_key")


async def test_a_key_does_what_its_scope_includes_and_no_more(guarded: Site) -> None:
    order = list(Scope)
    for held in Scope:
        headers = await guarded.key(held, "mine")
        for method, path, body, needed in ROUTES:
            reply = await send(guarded, method, theirs(guarded, path), body, headers)
            if order.index(held) < order.index(needed):
                assert_problem(reply, 403, "scope_missing", str(held), str(needed))
            elif path in EVERYWHERE:
                assert_problem(reply, 403, "workspace_forbidden")
            else:
                assert reply.status_code not in (401, 403), f"{held} {method} {path}"


async def test_nothing_of_another_workspace_can_be_seen_or_touched(guarded: Site) -> None:
    headers = await guarded.key(Scope.ADMIN, "mine")
    for method, path, body, _ in ROUTES:
        url = theirs(guarded, path)
        reply = await send(guarded, method, url, body, {**headers, "X-Workspace": "theirs"})
        if not path.startswith("/admin"):
            assert_problem(reply, 403, "workspace_forbidden", "theirs")
        reply = await send(guarded, method, url, body, headers)
        if "{" in path or "amber" in path:
            assert_problem(reply, 404, "not_found")
        assert "resin" not in reply.text
        assert "Baltic" not in reply.text
    listed = await guarded.client.get("/documents", headers=headers)
    assert [one["name"] for one in listed.json()["documents"]] == ["untitled"]
    spaces = await guarded.client.get("/admin/workspaces", headers=headers)
    assert spaces.json() == {"workspaces": [{"name": "mine"}]}
    found = await guarded.client.post("/query", json=QUESTION, headers=headers)
    assert found.json()["context"]["chunks"] == []
    owner = {**await guarded.key(Scope.READ), "X-Workspace": "theirs"}
    assert (await guarded.client.get("/documents/amber", headers=owner)).json()["status"] == "ready"


async def test_the_workspace_is_the_keys_own_or_the_one_that_is_chosen(guarded: Site) -> None:
    one = await guarded.key(Scope.READ, "theirs")
    assert (await guarded.client.get("/documents/amber", headers=one)).status_code == 200
    two = await guarded.key(Scope.READ, "theirs", "mine")
    reply = await guarded.client.get("/documents/amber", headers=two)
    assert_problem(reply, 400, "workspace_needed", "X-Workspace", "theirs")
    two["X-Workspace"] = "theirs"
    assert (await guarded.client.get("/documents/amber", headers=two)).status_code == 200
    two["X-Workspace"] = "../theirs"
    reply = await guarded.client.get("/documents/amber", headers=two)
    assert_problem(reply, 422, "validation", "X-Workspace")


async def test_both_headers_carry_a_key(guarded: Site) -> None:
    bearer = await guarded.key(Scope.READ)
    secret = bearer["Authorization"].removeprefix("Bearer ")
    reply = await guarded.client.get("/documents", headers={"X-API-Key": secret})
    assert reply.status_code == 200


async def test_an_open_service_takes_no_unknown_key_for_a_key(site: Site) -> None:
    reply = await site.client.get("/documents", headers={"X-API-Key": "made-up"})
    assert_problem(reply, 401, "unknown_key", "no keys yet")


# --- making and revoking -------------------------------------------------------------------------


async def test_the_first_key_closes_the_service_and_must_be_able_to_make_others(
    site: Site,
) -> None:
    for body in ({"scope": "read"}, {"scope": "admin", "workspaces": ["mine"]}):
        reply = await site.client.post("/admin/keys", json=body)
        assert_problem(reply, 403, "admin_key_first")
    reply = await site.client.post("/admin/keys", json={"scope": "admin", "label": "me"})
    assert reply.status_code == 201
    assert reply.headers["cache-control"] == "no-store"
    made = reply.json()
    assert_problem(await site.client.get("/documents"), 401, "unauthenticated")
    headers = {"X-API-Key": made["secret"]}
    assert (await site.client.get("/documents", headers=headers)).status_code == 200
    listed = await site.client.get("/admin/keys", headers=headers)
    assert [one["id"] for one in listed.json()["keys"]] == [made["id"]]
    assert made["secret"] not in listed.text


async def test_only_the_hash_of_a_secret_is_stored(site: Site) -> None:
    made = (await site.client.post("/admin/keys", json={"scope": "admin"})).json()
    [stored] = await site.services.keyring.all()
    assert stored.digest == hashlib.sha256(made["secret"].encode()).hexdigest()
    assert made["secret"] not in repr(stored)


async def test_a_revoked_key_is_refused_at_once(site: Site) -> None:
    admin = await site.key(Scope.ADMIN)
    made = (await site.client.post("/admin/keys", json={"scope": "read"}, headers=admin)).json()
    headers = {"X-API-Key": made["secret"]}
    assert (await site.client.get("/documents", headers=headers)).status_code == 200
    reply = await site.client.delete(f"/admin/keys/{made['id']}", headers=admin)
    assert reply.status_code == 204
    assert_problem(await site.client.get("/documents", headers=headers), 401, "unknown_key")
    reply = await site.client.delete(f"/admin/keys/{made['id']}", headers=admin)
    assert_problem(reply, 404, "not_found")


async def test_the_last_key_is_not_revoked_over_http(site: Site) -> None:
    """It would open the service to whoever reaches it, through a proxy on the same host too."""
    made = (await site.client.post("/admin/keys", json={"scope": "admin"})).json()
    admin = {"Authorization": f"Bearer {made['secret']}"}
    reply = await site.client.delete(f"/admin/keys/{made['id']}", headers=admin)
    assert_problem(reply, 409, "last_key", "app.cli keys revoke")
    assert (await site.client.get("/documents")).status_code == 401


async def test_a_key_that_another_process_revoked_is_refused_within_five_seconds(
    site: Site,
) -> None:
    now = 100.0
    secret, key = make_key("", Scope.READ, (), now=0.0)
    gate = Gate(site.services.keyring, clock=lambda: now)
    await site.services.keyring.add(key)
    assert await gate.key(secret) == key
    await site.services.keyring.revoke(key.id)
    now += TTL
    assert TTL <= 5
    assert await gate.key(secret) is None


async def test_a_workspace_admin_rules_only_over_its_own_keys(site: Site) -> None:
    everywhere = await site.key(Scope.ADMIN)
    mine = await site.key(Scope.ADMIN, "mine")
    for workspaces in ([], ["theirs"], ["mine", "theirs"]):
        body = {"scope": "read", "workspaces": workspaces}
        reply = await site.client.post("/admin/keys", json=body, headers=mine)
        assert_problem(reply, 403, "workspace_forbidden")
    body = {"scope": "read", "workspaces": ["theirs"]}
    foreign = (await site.client.post("/admin/keys", json=body, headers=everywhere)).json()
    reply = await site.client.delete(f"/admin/keys/{foreign['id']}", headers=mine)
    assert_problem(reply, 404, "not_found")
    listed = (await site.client.get("/admin/keys", headers=mine)).json()["keys"]
    assert [one["workspaces"] for one in listed] == [["mine"]]


# --- without any key -----------------------------------------------------------------------------


async def test_without_a_key_the_service_does_not_start_on_other_than_loopback(
    site: Site, site_of: Callable[..., Site]
) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        outside = Settings(_env_file=None, data_dir=site.settings.data_dir, host=host)
        with pytest.raises(Misconfigured, match=r"app\.cli keys create"):
            await refuse_open_door(outside, site.services)
        app = create_app(outside, site.services)
        with pytest.raises(Misconfigured, match=f"HELIOGRAPH_HOST is {host}"):
            async with app.router.lifespan_context(app):
                raise AssertionError("it started")
    for host in ("127.0.0.1", "localhost", "::1", "[::1]"):
        inside = Settings(_env_file=None, data_dir=site.settings.data_dir, host=host)
        await refuse_open_door(inside, site.services)
    await site.key(Scope.ADMIN)
    await refuse_open_door(outside, site.services)


async def test_without_a_key_nobody_outside_is_answered(site: Site) -> None:
    async with site.stranger(base_url="http://192.0.2.7:8080") as client:
        reply = await client.get("/documents")
        assert_problem(reply, 403, "keys_required", "app.cli keys create")
        assert (await client.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "[evil"}, "keys_required"),
        ({"Host": "localhost@evil.example"}, "keys_required"),
        ({"Host": "127.0.0.1.evil.example"}, "keys_required"),
        ({"Origin": "http://[evil"}, "foreign_origin"),
        ({"Origin": "null"}, "foreign_origin"),
        ({"Origin": "//"}, "foreign_origin"),
    ],
)
async def test_without_a_key_made_up_addresses_are_refused(
    site: Site, headers: dict[str, str], code: str
) -> None:
    assert_problem(await site.client.get("/documents", headers=headers), 403, code)


async def test_without_a_key_a_name_that_was_bound_to_loopback_is_refused(site: Site) -> None:
    reply = await site.client.get("/documents", headers={"Host": "evil.example"})
    assert_problem(reply, 403, "keys_required")
    for host in ("localhost:8080", "127.0.0.1", "[::1]:8080"):
        reply = await site.client.get("/documents", headers={"Host": host})
        assert reply.status_code == 200


async def test_without_a_key_pages_of_other_sites_are_refused(
    site_of: Callable[..., Site],
) -> None:
    site = site_of(cors_origins=("https://good.example",))
    for origin, status in (
        ("https://evil.example", 403),
        ("null", 403),
        ("http://127.0.0.1:9999", 403),
        ("https://good.example", 202),
        ("http://127.0.0.1:8080", 202),
    ):
        reply = await site.client.post(
            "/documents", json={"text": "Basalt."}, headers={"Origin": origin}
        )
        assert reply.status_code == status, origin


async def test_only_listed_origins_are_told_that_they_may_read(
    site_of: Callable[..., Site],
) -> None:
    site = site_of(cors_origins=("https://good.example",))
    for origin, allowed in (("https://good.example", True), ("https://evil.example", False)):
        reply = await site.client.options(
            "/query", headers={"Origin": origin, "Access-Control-Request-Method": "POST"}
        )
        assert ("access-control-allow-origin" in reply.headers) is allowed
