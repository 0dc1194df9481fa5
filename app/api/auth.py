"""API keys: how they are made, and who a secret belongs to."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence

from app.domain import ApiKey, Scope
from app.ports import Keyring

TTL = 5.0  # seconds that a look-up is remembered, hence until a revocation reaches every process
_REMEMBERED = 1024


def make_key(
    label: str, scope: Scope, workspaces: Sequence[str], *, now: float
) -> tuple[str, ApiKey]:
    """A new key and its secret `hg_<id>_<random>`, which is never stored."""
    key_id = secrets.token_hex(6)
    secret = f"hg_{key_id}_{secrets.token_urlsafe(32)}"
    return secret, ApiKey(key_id, digest(secret), scope, tuple(workspaces), label, now)


def digest(secret: str) -> str:
    # A fast hash is right here: the secret has 256 random bits, there is nothing to guess.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


class Gate:
    """Finds keys by secret and remembers them for a few seconds."""

    def __init__(self, keyring: Keyring, clock: Callable[[], float] = time.monotonic) -> None:
        self._keyring = keyring
        self._clock = clock
        self._found: dict[str, tuple[float, ApiKey]] = {}
        self._any: tuple[float, bool] | None = None

    async def key(self, secret: str) -> ApiKey | None:
        wanted, now = digest(secret), self._clock()
        known = self._found.get(wanted)
        if known is not None and now < known[0]:
            return known[1]
        self._found.pop(wanted, None)
        key = await self._keyring.find(wanted)
        if key is None or not hmac.compare_digest(key.digest, wanted):
            return None
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
        self._found[wanted] = (now + TTL, key)
        return key

    async def has_keys(self) -> bool:
        """Whether any key exists; without one the service is open (and on loopback only)."""
        now = self._clock()
        if self._any is None or now >= self._any[0]:
            self._any = (now + TTL, bool(await self._keyring.all()))
        return self._any[1]

    def forget(self) -> None:
        """After a key was made or revoked here."""
        self._found.clear()
        self._any = None
