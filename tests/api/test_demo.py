"""What `make run` says where it cannot show the samples."""

from __future__ import annotations

import pytest

from app.errors import Unauthenticated
from tests.api.conftest import Site
from workers.demo import _json


async def test_a_service_with_a_key_is_named_as_such(site: Site) -> None:
    await site.client.post("/admin/keys", json={"scope": "admin", "label": "first"})
    with pytest.raises(Unauthenticated, match="make serve"):
        await _json(site.client, "GET", "/documents")
