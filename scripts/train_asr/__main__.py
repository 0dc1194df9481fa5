"""Weights for mode `asr`, from a workspace's own graph and from questions with known answers.

    python -m scripts.train_asr examples --workspace lab --questions q.jsonl --walks 300 --out l.npz
    python -m scripts.train_asr train --train lab=l.npz --held-out other=other.npz --out asr.npz

`examples` opens the stores as the service does (stop an embedded service first: its folder serves
one process). `train` needs no store, and prints what the weights are worth beside likeness alone
and the prior; `--ablations` trains and measures each part's absence too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # equal bytes for equal seeds

from app.domain import Question
from app.ports import Models, Workspace
from app.settings import load as load_settings
from app.wiring import embedded_queue, open_services
from scripts.train_asr import report
from scripts.train_asr.examples import (
    Example,
    load,
    made_up,
    of_question,
    read_questions,
    save,
)
from scripts.train_asr.training import Recipe

MOST_STARTS = 20_000
PAGE = 500


async def collect(options: argparse.Namespace) -> None:
    async with embedded_queue(load_settings()) as wired, open_services(wired) as services:
        workspace = services.workspace(options.workspace)
        found = await _asked(workspace, services.models, options.questions)
        if options.walks:
            starts = await _entities(workspace)
            found += await made_up(
                workspace, services.models, starts, count=options.walks, seed=options.seed
            )
    save(Path(options.out), found)
    usable = sum(bool(one.bags) for one in found)
    print(f"{len(found)} examples, {usable} with an answer in their pool")


async def _asked(workspace: Workspace, models: Models, path: str) -> list[Example]:
    found = []
    for row in read_questions(Path(path)) if path else []:
        if row.get("gold_passage_ids") or row.get("gold_relations"):
            question = Question(row["question"], workspace=workspace.name)
            one = await of_question(workspace, models, row, question)
            found += [one] if one else []
    return found


async def _entities(workspace: Workspace) -> list[str]:
    keys: list[str] = []
    while len(keys) < MOST_STARTS:
        page = await workspace.graph.search("", limit=PAGE, after=keys[-1] if keys else "")
        keys += [one.key for one in page]
        if len(page) < PAGE:
            break
    return keys


def fit(options: argparse.Namespace) -> None:
    training, held_out = _sets(options.train), _sets(options.held_out)
    recipe = Recipe(width=options.width, epochs=options.epochs)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    print(f"{'':12} {'':14} " + "  ".join(f"recall@{k:<3}" for k in report.AT))
    rows = report.baselines(held_out)
    for row in rows:
        print(row)
    found, parameters = report.trained(training, held_out, recipe, seeds)
    rows += found
    for row in found:
        print(row, flush=True)
    if options.ablations:
        for name, without in report.ABLATIONS.items():
            for row in _without(training, held_out, recipe, seeds, name=name, without=without):
                print(row, flush=True)
    ships, lines = report.may_ship(rows)
    print("\n".join(lines))
    print("may ship" if ships else "may not ship: the prior stays the default")
    if options.out:
        trained_on = [
            {
                "name": name,
                "examples": len(its),
                "licence": _licences(options.licence).get(name, ""),
            }
            for name, its in training.items()
        ]
        data = report.written(parameters[0], recipe, seeds[0], trained_on, rows)
        Path(options.out).write_bytes(data)
        print(f"{options.out}: {len(data):,} bytes")


def _without(
    training: report.Sets, held_out: report.Sets, recipe: Recipe, seeds: Sequence[int], *,
    name: str, without: frozenset[str],
) -> list[report.Row]:  # fmt: skip
    changed = Recipe(width=recipe.width, epochs=recipe.epochs, without=without)
    return report.trained(training, held_out, changed, seeds, scorer=name)[0]


def _sets(named: Sequence[str]) -> dict[str, list[Example]]:
    pairs = [one.partition("=") for one in named]
    return {name: load(Path(path)) for name, _, path in pairs}


def _licences(named: Sequence[str]) -> dict[str, str]:
    return {name: licence for name, _, licence in (one.partition("=") for one in named)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="train_asr", description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("examples", help="questions of a workspace, as pools")
    one.add_argument("--workspace", default="default")
    one.add_argument("--questions", default="", help="JSON lines, plain or gzip")
    one.add_argument("--walks", type=int, default=0, help="made-up questions about its graph")
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--out", required=True)
    one.set_defaults(run=lambda options: asyncio.run(collect(options)))
    two = commands.add_parser("train", help="weights from examples")
    two.add_argument("--train", nargs="+", required=True, metavar="NAME=FILE")
    two.add_argument("--held-out", nargs="*", default=[], metavar="NAME=FILE")
    two.add_argument("--licence", nargs="*", default=[], metavar="NAME=LICENCE")
    two.add_argument("--seeds", default="42,1209,2002")
    two.add_argument("--width", type=int, default=Recipe().width)
    two.add_argument("--epochs", type=int, default=Recipe().epochs)
    two.add_argument("--ablations", action="store_true")
    two.add_argument("--out", default="")
    two.set_defaults(run=fit)
    options = parser.parse_args(arguments)
    options.run(options)


if __name__ == "__main__":
    main(sys.argv[1:])
