"""`python -m tests.bench.replay --port 9920 [--sets musique-train,…] [--rules]`."""

from __future__ import annotations

import argparse

import uvicorn

from app.rules.embedder import LocalEmbedder
from tests.bench.replay.answers import Replay
from tests.bench.replay.recordings import RECORDED, library
from tests.bench.replay.server import application


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9920)
    parser.add_argument("--sets", default=",".join(RECORDED), help="sets whose passages are known")
    parser.add_argument("--rules", action="store_true", help="the built-in extractor for all")
    options = parser.parse_args()
    books = library(options.sets.split(","), recorded=not options.rules)
    app = application(Replay(books), LocalEmbedder())
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
