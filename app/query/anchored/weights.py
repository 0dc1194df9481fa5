"""Files of trained weights: written by the trainer, read with mistrust.

A file is an archive of arrays (`.npz`, no pickles): float16 parameters under `p_…`, a JSON header,
and a small example with its scores, which the reader computes again.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.query.anchored.distances import Floats
from app.query.anchored.features import View, features, schema
from app.query.anchored.network import Network, check

VERSION = 1
MOST_BYTES = 4_000_000
MOST_WIDTH = 256
TOLERANCE = 1e-3
_EXAMPLE = ("head", "tail", "topics", "anchors", "relation", "themes", "entity", "names")


class Refused(Exception):
    """The file cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Weights:
    """`version` identifies the file; `header` says what it was trained on and what it reached."""

    network: Network
    version: str
    header: Mapping[str, Any]


def read(path: Path) -> Weights:
    """Raises `Refused`."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise Refused(f"it is larger than {MOST_BYTES:,} bytes")
        return parse(path.read_bytes())
    except OSError as error:
        raise Refused(f"it cannot be read: {error.strerror}") from error


def parse(data: bytes) -> Weights:
    """Raises `Refused`."""
    arrays = _arrays(data)
    try:
        header = json.loads(bytes(arrays["header"].astype(np.uint8)).decode())
        found = (header["format"], header["schema"])
        width = int(header["width"])
    except (KeyError, ValueError, TypeError) as error:
        raise Refused("it has no readable header") from error
    if found != (VERSION, schema()):
        raise Refused(f"it is of format and features {found}, not {(VERSION, schema())}")
    if not 1 <= width <= MOST_WIDTH:
        raise Refused(f"its width is {width}")
    try:
        parameters = {name[2:]: one for name, one in arrays.items() if name.startswith("p_")}
        network = Network(check(parameters, width))
        _check_example(network, arrays)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise Refused(f"it does not hold together: {error}") from error
    return Weights(network, hashlib.sha256(data).hexdigest()[:12], header)


def _arrays(data: bytes) -> dict[str, Any]:
    """Small ones only: an archive may unpack to far more than it weighs."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(one.file_size for one in archive.infolist()) > MOST_BYTES:
                raise Refused(f"it unpacks to more than {MOST_BYTES:,} bytes")
        with np.load(io.BytesIO(data), allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        zipfile.BadZipFile,
        NotImplementedError,
    ) as error:
        raise Refused("it is no archive of arrays") from error


def write(parameters: Mapping[str, Floats], header: Mapping[str, Any], example: View) -> bytes:
    """The same bytes for the same contents."""
    width = len(parameters["b"])
    stored = {name: np.asarray(one, np.float16) for name, one in parameters.items()}
    network = Network(check(stored, width))
    text = json.dumps(
        {"format": VERSION, "schema": schema(), "width": width, **header}, sort_keys=True
    )
    arrays: dict[str, Any] = {
        "header": np.frombuffer(text.encode(), np.uint8),
        **{f"p_{name}": one for name, one in sorted(stored.items())},
        **{f"example_{name}": getattr(example, name) for name in _EXAMPLE},
        "example_scores": network.scores(example, features(example)),
    }
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), part.getvalue())
    return target.getvalue()


def _check_example(network: Network, arrays: Mapping[str, Any]) -> None:
    view = View(**{name: arrays[f"example_{name}"] for name in _EXAMPLE})
    expected = arrays["example_scores"]
    scores = network.scores(view, features(view))
    if scores.shape != expected.shape or not np.isfinite(scores).all():
        raise ValueError("its example gives no scores")
    if len(scores) and float(np.abs(scores - expected).max()) > TOLERANCE:
        raise ValueError("its example gives other scores than those stored with it")
