"""Which weights score a workspace's questions; files that cannot be used are told of, once each."""

from __future__ import annotations

import logging
from pathlib import Path

from app.query.anchored.weights import Refused, Weights, read

SUFFIX = ".npz"
SHIPPED = Path(__file__).parents[2] / "data" / f"asr{SUFFIX}"

log = logging.getLogger("heliograph.query")


class Shelf:
    """Implements `app.ports.Scorers`. A file is read again when it changes."""

    def __init__(self, place: Path | None = None, shipped: Path = SHIPPED) -> None:
        """`place`: a file for all workspaces, or a folder of `<workspace>.npz`; what it lacks has
        the weights that come with the package, if any."""
        self._place = place
        self._shipped = shipped
        self._read: dict[Path, tuple[tuple[int, int], Weights | None, str]] = {}

    def of(self, workspace: str) -> Weights | None:
        """None: the prior scores."""
        for path in self._candidates(workspace):
            if weights := self._weights(path):
                return weights
        return None

    def notices(self) -> list[str]:
        """Why files are left aside; names no workspace."""
        files = [self._shipped]
        if self._place is not None:
            files += (
                sorted(self._place.glob(f"*{SUFFIX}")) if self._place.is_dir() else [self._place]
            )
        for path in files:
            self._weights(path)
        refused = sorted({self._read[path][2] for path in files if path in self._read} - {""})
        return [
            f"asr_weights: a file of weights cannot be used and the prior scores instead: {why}"
            for why in refused
        ]

    def _candidates(self, workspace: str) -> list[Path]:
        if self._place is None:
            return [self._shipped]
        own = self._place / f"{workspace}{SUFFIX}" if self._place.is_dir() else self._place
        return [own, self._shipped]

    def _weights(self, path: Path) -> Weights | None:
        try:
            found = path.stat()
            state = (found.st_mtime_ns, found.st_size)
        except OSError:
            if path != self._place:
                return None
            state = (0, 0)  # named, and not there
        if path not in self._read or self._read[path][0] != state:
            self._read[path] = (state, *_tried(path))
        return self._read[path][1]


def _tried(path: Path) -> tuple[Weights | None, str]:
    try:
        return read(path), ""
    except Refused as refused:
        log.warning("asr.weights_refused file=%s why=%s", path.name, refused)
        return None, str(refused)
