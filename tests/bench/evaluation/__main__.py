"""`python -m tests.bench.evaluation`: measures what is not known yet and writes the page."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from app.domain import Mode
from tests.bench.evaluation import kgqa, page
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
    cache = Path(options.cache)
    stores = Stores(cache, keep=options.keep)
    modes = [one for one in options.modes.split(",") if one] or [
        *BASELINES, *(mode.value for mode in Mode if mode not in LAST), *VARIANTS
    ]  # fmt: skip
    wanted = Wanted(
        modes, options.anew, options.most, options.reference, options.keep, options.quick
    )
    measuring = Measuring(stores, RESULTS, wanted, Reference(stores, cache))
    grounds = chosen(options.sets)
    for store in () if options.page else STORES:
        if here := [ground for ground in grounds if ground.store == store]:
            asyncio.run(measuring.measure(store, here))
    wants_triples = matches(kgqa.KEY, options.sets) and not options.modes
    if wants_triples and not options.page:
        kgqa.measure(RESULTS, cache, anew=options.anew, keep=options.keep)
    page.write(RESULTS, ROOT / "docs" / "evaluation.md")
    page.write_summary(RESULTS, ROOT / "README.md")


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
    parser.add_argument("--cache", default=os.environ.get("EVALUATION_CACHE") or str(CACHE))
    return parser.parse_args()


if __name__ == "__main__":
    main()
