"""`python -m tests.bench.performance`: measures what is asked for, writes docs/performance.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.bench.performance import measuring, page
from tests.bench.performance.measuring import Wanted
from tests.bench.performance.stacks import STACKS
from tests.servers import Missing
from tests.system.stack import ROOT

PARTS = {
    "ingest": measuring.measure_ingest, "query": measuring.measure_query,
    "update": measuring.measure_update, "scale": measuring.measure_scale,
    "start": measuring.measure_start,
}  # fmt: skip
RESULTS, PAGE = ROOT / "docs" / "performance", ROOT / "docs" / "performance.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", help="comma separated; empty: all", nargs="?", default="")
    parser.add_argument("--sizes", default="", help="documents, comma separated")
    parser.add_argument("--stacks", default="", help=f"of {', '.join(STACKS)}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--queries", type=int, default=100, help="in each mode")
    parser.add_argument("--changed", type=int, default=20, help="documents changed one by one")
    parser.add_argument("--together", type=int, default=100, help="documents deleted at once")
    parser.add_argument("--minutes", type=float, default=30.0, help="that the growth may take")
    parser.add_argument("--reference", action="store_true", help="lightrag-hku by turns with it")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    told = parser.parse_args()
    wanted = Wanted(
        told.results, listed(told.stacks) or ("embedded",), tuple(map(int, listed(told.sizes))),
        told.runs, told.queries, told.changed, told.together, told.minutes, told.reference,
    )  # fmt: skip
    if not told.page:
        for part in listed(told.parts) or tuple(PARTS):
            try:
                PARTS[part](wanted)
            except Missing as missing:
                raise SystemExit(str(missing)) from None
    if told.results == RESULTS:
        page.write(RESULTS, PAGE)


def listed(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


if __name__ == "__main__":
    main()
