"""`heliograph evaluate`: every mode measured on one's own documents and questions."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

Run = Callable[[Coroutine[Any, Any, Any]], Any]

Folder = Annotated[
    Path,
    typer.Argument(
        help="Folder with corpus.jsonl or documents.jsonl, and questions.jsonl; plain or .gz."
    ),
]
Questions = Annotated[
    Path | None, typer.Option(help="Folder with the questions, if it is another.")
]
Modes = Annotated[
    str,
    typer.Option(
        help="Modes, by commas; with options as mix:mix_style=lightrag. Else all that work."
    ),
]
Url = Annotated[
    str, typer.Option(help="Service to measure; else one of these settings, in this process.")
]
Key = Annotated[str, typer.Option(help="Its API key.", envvar="EVALUATE_KEY")]
Where = Annotated[
    str, typer.Option(help="Workspace for the documents; else named after folder and content.")
]
Against = Annotated[str, typer.Option(help="Mode that the others are compared with; else naive.")]
Titles = Annotated[
    bool, typer.Option("--without-titles", help="Store the documents without their titles.")
]
Lower = Annotated[bool, typer.Option("--lower", help="Ask in lower case.")]
Only = Annotated[str, typer.Option(help="Only passages whose field of this name is true.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first questions.")]
Answers = Annotated[
    bool, typer.Option("--answers", help="Have answers written, and compare them with known ones.")
]
Judge = Annotated[
    list[str] | None,
    typer.Option(help="Two modes, as mix,naive: a model judges their answers. Repeat it."),
]
Generate = Annotated[
    str,
    typer.Option(help="Have a model write the questions: users x tasks x questions, as 5x5x5."),
]
Side = Annotated[int, typer.Option(min=1, max=64, help="Questions side by side.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the draws behind the intervals.")]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder for results; a run that stopped goes on there.", file_okay=False),
]
Discard = Annotated[bool, typer.Option("--discard", help="Delete the documents afterwards.")]


def install(cli: typer.Typer, run: Run) -> None:
    """Add the command; `run` carries a coroutine out and turns its errors into sentences."""

    @cli.command("evaluate")
    def evaluate(
        *,
        folder: Folder,
        questions: Questions = None,
        modes: Modes = "",
        url: Url = "",
        key: Key = "",
        workspace: Where = "",
        against: Against = "",
        without_titles: Titles = False,
        lower: Lower = False,
        only: Only = "",
        limit: Limit = None,
        answers: Answers = False,
        judge: Judge = None,
        generate: Generate = "",
        concurrency: Side = 4,
        seed: Seed = 20260,
        out: Out = None,
        discard: Discard = False,
    ) -> None:
        """Measure modes on documents and questions: what is found, what it costs, and whether the
        difference is more than chance. See docs/evaluate.md."""
        from app import evaluating  # noqa: PLC0415  heavy, and no other command needs it

        wanted = evaluating.Wanted(
            folder=folder, questions=questions, modes=modes, url=url, key=key,
            workspace=workspace, against=against, titles=not without_titles, lower=lower,
            only=only, limit=limit, answers=answers or bool(judge), pairs=judge or (),
            sizes=generate, concurrency=concurrency, seed=seed, out=out, discard=discard,
        )  # fmt: skip
        run(evaluating.evaluate(wanted))
