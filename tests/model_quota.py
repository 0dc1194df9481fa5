"""Limits of a model server, as providers have them: 429 beyond.

{"parallel": n, "requests": m, "tokens": t, "period_s": 60, "window": "sliding" | "fixed",
"count": "used" | "asked"}: calls at a time, and requests and tokens in each period. Tokens count
when a call ends, as it used them, or when it comes, as many as it may use.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any


class Quota:
    def __init__(self, told: Mapping[str, Any]) -> None:
        self._parallel = told.get("parallel", 0)
        self._requests = told.get("requests", 0)
        self._tokens = told.get("tokens", 0)
        self._period = float(told.get("period_s", 60.0))
        self._fixed = told.get("window", "sliding") == "fixed"
        self._asked = told.get("count", "used") == "asked"
        self._running = 0
        self._came: deque[float] = deque()
        self._spent: deque[tuple[float, int]] = deque()
        self.first: float | None = None  # when the first call came
        self.taken = 0
        self.refused: dict[str, list[float]] = {"parallel": [], "requests": [], "tokens": []}
        self.most_tokens = 0  # that counted at a time

    def enter(self, prompt: int, most: int) -> str:
        """Begin a call of so many tokens: what it is refused for, or nothing."""
        now = time.monotonic()
        self.first = self.first or now
        self._forget(now)
        spent = sum(tokens for _, tokens in self._spent)
        cost = most if self._asked else prompt
        for what, full in (
            ("parallel", self._parallel and self._running >= self._parallel),
            ("requests", self._requests and len(self._came) >= self._requests),
            ("tokens", self._tokens and spent + cost > self._tokens),
        ):
            if full:
                self.refused[what].append(now)
                return what
        self.taken += 1
        self._running += 1
        self._came.append(now)
        if self._asked:
            self._spent.append((now, most))
        self.most_tokens = max(self.most_tokens, spent + (most if self._asked else 0))
        return ""

    def leave(self, used: int) -> None:
        self._running -= 1
        if not self._asked:
            self._spent.append((time.monotonic(), used))
            self.most_tokens = max(self.most_tokens, sum(tokens for _, tokens in self._spent))

    def _forget(self, now: float) -> None:
        start = now - now % self._period if self._fixed else now - self._period
        while self._came and self._came[0] < start:
            self._came.popleft()
        while self._spent and self._spent[0][0] < start:
            self._spent.popleft()

    def stats(self) -> dict[str, Any]:
        return {
            "taken": self.taken, "most_tokens": self.most_tokens,
            "refused": {what: len(times) for what, times in self.refused.items()},
        }  # fmt: skip
