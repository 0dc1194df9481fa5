"""`python -m tests.bench.evaluation`: measures what is not known yet and writes the page."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from app.domain import Mode
from tests.bench.evaluation import encoders, kgqa, page
from tests.bench.evaluation.filling import Stores
from tests.bench.evaluation.grounds import GROUNDS, MOST, STORES, chosen, matches
from tests.bench.evaluation.measuring import BASELINES, VARIANTS, Measuring, Wanted
from tests.bench.evaluation.reference import Reference
from tests.system.stack import ROOT

RESULTS = ROOT / "docs" / "evaluation"
CACHE = ROOT / ".cache" / "evaluation"
LAST = (Mode.BYPASS,)  # retrieves nothing


def main() -> None:
    options = _arguments()
    # Another encoder has stores, vectors and records of its own.
    cache, results = Path(options.cache) / options.encoder, RESULTS / options.encoder
    cache.mkdir(parents=True, exist_ok=True)
    if not options.page:
        with encoders.encoding(options.encoder, cache) as told:
            _measure(options, cache, results, told)
    page.write(RESULTS, ROOT / "docs" / "evaluation.md")
    page.write_summary(RESULTS, ROOT / "README.md")


def _measure(
    options: argparse.Namespace, cache: Path, results: Path, encoder: Mapping[str, str]
) -> None:
    plain = Stores(Path(options.cache), keep=options.keep) if encoder else None
    stores = Stores(cache, keep=options.keep, encoder=encoder, plain=plain)
    everything = [*BASELINES, *(mode.value for mode in Mode if mode not in LAST), *VARIANTS]
    modes = [one for one in options.modes.split(",") if one] or (
        list(encoders.SYSTEMS) if encoder else everything
    )
    wanted = Wanted(
        modes, options.anew, options.most, options.reference, options.keep, options.quick,
        published=not encoder,
    )  # fmt: skip
    measuring = Measuring(stores, results, wanted, Reference(stores, cache))
    grounds = chosen(options.sets)
    for store in STORES:
        if here := [ground for ground in grounds if ground.store == store]:
            asyncio.run(measuring.measure(store, here))
    if matches(kgqa.KEY, options.sets) and not options.modes and not encoder:
        kgqa.measure(results, cache, anew=options.anew, keep=options.keep)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    keys = ", ".join(ground.key for ground in GROUNDS)
    parser.add_argument("--sets", default="", help=f"keys or patterns of: {keys}")
    parser.add_argument("--modes", default="", help="modes, bm25, dense; default all")
    parser.add_argument("--most", type=int, default=MOST, help="questions of a set for most modes")
    parser.add_argument("--anew", action="store_true", help="measure what is known, too")
    parser.add_argument("--reference", action="store_true", help="measure lightrag-hku, too")
    parser.add_argument("--keep", action="store_true", help="older stores and results will do")
    parser.add_argument("--quick", action="store_true", help="mix, too, is asked only --most")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--encoder", default="", choices=["", encoders.MINILM])
    parser.add_argument("--cache", default=os.environ.get("EVALUATION_CACHE") or str(CACHE))
    options = parser.parse_args()
    if options.encoder and options.reference:
        parser.error("lightrag-hku is measured with the built-in encoder only")
    return options


if __name__ == "__main__":
    main()
