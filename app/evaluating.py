"""What `heliograph evaluate` does: store documents, ask questions, report."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable

from app.api.auth import make_key
from app.api.deps import WORKSPACE
from app.domain import Mode, Scope
from app.errors import Invalid, NoModel
from app.evaluation import generate, judge, questions, report, results, run
from app.evaluation.intervals import SEED
from app.evaluation.questions import QuestionSet
from app.evaluation.remote import HeliographTarget, heliograph
from app.evaluation.targets import Ingested, Told, Variant
from app.main import create_app
from app.ports import Referee, Services
from app.settings import Settings, load
from app.wiring import embedded_queue, open_services
from app.wiring.models import open_models

EMBEDDED = "http://127.0.0.1"  # no request to it leaves the process
NOT_BY_DEFAULT = (Mode.BYPASS,)
SECONDS = 600.0  # a model may take its time


@dataclass(frozen=True, slots=True)
class Wanted:
    """The command line."""

    folder: Path
    questions: Path | None = None
    modes: str = ""
    url: str = ""
    key: str = ""
    workspace: str = ""
    against: str = ""
    titles: bool = True
    lower: bool = False
    only: str = ""
    limit: int | None = None
    answers: bool = False
    pairs: Sequence[str] = ()
    sizes: str = ""
    concurrency: int = 4
    seed: int = SEED
    out: Path | None = None
    discard: bool = False


async def evaluate(wanted: Wanted) -> None:
    variants, explicit = _variants(wanted.modes), bool(wanted.modes)
    labels = [one.label for one in variants]
    pairs = _pairs(wanted, variants)
    if wanted.against and wanted.against not in labels:
        raise Invalid(f"--against must be one of the modes: {', '.join(labels)}.")
    sizes = generate.Sizes.of(wanted.sizes) if wanted.sizes else None
    if load().llm_url.startswith("offline:") and (pairs or sizes):
        raise NoModel(judge.NO_MODEL if pairs else generate.NO_MODEL)
    passages = questions.read_corpus(wanted.folder, titles=wanted.titles, only=wanted.only)
    out = wanted.out or Path(f"evaluation-{_plain(wanted.folder.resolve().name)}")
    out.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(_opened(wanted, passages))
        asked = wanted.questions
        if sizes is not None and opened.referee is not None:
            asked = await _written(opened.referee, passages, sizes, out)
        found = questions.read_folder(
            wanted.folder, questions=asked, titles=wanted.titles, lower=wanted.lower,
            only=wanted.only, limit=wanted.limit,
        )  # fmt: skip
        with _progress("storing documents") as told:
            ingested = await opened.target.ingest(found.passages, told)
        _tell_ingested(ingested)
        usable = await _usable(opened.target, found, variants, explicit=explicit)
        made = await _measured(wanted, opened, found, usable, ingested=ingested, out=out)
        report.write(made, out)
        _show(made, out)
        if wanted.discard:
            await opened.target.discard()


async def _measured(
    wanted: Wanted, opened: _Opened, found: QuestionSet, variants: Sequence[Variant], *,
    ingested: Ingested, out: Path,
) -> report.Report:  # fmt: skip
    target, about = opened.target, dict(await opened.target.describe())
    kind = {
        "set": found.digest, "questions": _digest(found), "server": about,
        "answers": wanted.answers,
    }  # fmt: skip
    order = run.Order(found.cases, variants, wanted.answers, run.countable(found))
    judged = []
    async with run.partial(out / "outcomes.jsonl", kind) as (done, save):
        with _progress("asking") as told:
            outcomes = await run.measure(
                target, order, save, done=done, concurrency=wanted.concurrency, told=told
            )
        for pair in _pairs(wanted, variants):
            assert opened.referee is not None, "checked before anything was stored"
            with _progress(f"judging {pair[0]} against {pair[1]}") as told:
                verdicts = await judge.judge(
                    opened.referee, pair, found.cases, {**done, **outcomes}, save,
                    concurrency=wanted.concurrency, told=told,
                )  # fmt: skip
            judged.append(
                judge.judged_of(opened.referee, pair, list(verdicts.values()), seed=wanted.seed)
            )
    figures = results.results_of(outcomes, variants, against=wanted.against, seed=wanted.seed)
    facts: dict[str, Mapping[str, object]] = {
        "set": {
            "name": found.name, "digest": found.digest[:16], "passages": len(found.passages),
            "questions": len(found.cases), "titles": wanted.titles, "lower": wanted.lower,
            "only": wanted.only,
        },
        "target": about,
        "ingest": {
            "documents": ingested.documents, "failed": len(ingested.failed),
            "seconds": round(ingested.seconds, 1), "reused": ingested.reused,
            "model_calls": ingested.usage.llm_calls,
        },
        "settings": {
            "seed": wanted.seed, "concurrency": wanted.concurrency, "answers": wanted.answers,
            "against": wanted.against,
        },
    }  # fmt: skip
    return report.Report(found.name, facts, figures, judged, found.cases, outcomes)


def _pairs(wanted: Wanted, variants: Sequence[Variant]) -> list[tuple[str, str]]:
    return [judge.pair_of(one, [variant.label for variant in variants]) for one in wanted.pairs]


def _variants(modes: str) -> list[Variant]:
    named = [one for one in modes.split(",") if one.strip()]
    if not named:
        return [Variant.of(mode.value) for mode in Mode if mode not in NOT_BY_DEFAULT]
    found = [Variant.of(one) for one in dict.fromkeys(one.strip() for one in named)]
    if not found:
        raise Invalid("--modes names no mode.")
    return found


async def _usable(
    target: HeliographTarget, found: QuestionSet, variants: Sequence[Variant], *, explicit: bool
) -> list[Variant]:
    """Those that the service takes: of modes that nobody named, some may need a model."""
    usable = []
    for one in variants:
        try:
            if one.mode not in run.NOTHING_RETRIEVED:
                await target.retrieve(found.cases[0].question, one)
        except Invalid as error:
            if explicit:
                raise
            typer.echo(f"{one.label} is left out: {error.detail}", err=True)
        else:
            usable.append(one)
    if not usable:
        raise Invalid("The service takes none of these modes.")
    return usable


async def _written(
    referee: Referee, passages: Sequence[questions.Passage], sizes: generate.Sizes, out: Path
) -> Path:
    """The folder with the questions that a model wrote, now or in an earlier run."""
    path = out / "questions.jsonl"
    if path.exists():
        typer.echo(f"{path} is there already: its questions are asked.", err=True)
        return out
    with _progress("writing questions") as told:
        written = await generate.generate(referee, generate.samples_of(passages), sizes, told)
    generate.write(written, path)
    typer.echo(
        f"{len(written.questions)} questions in {path}, {written.repeated} repeats left out; "
        f"{written.usage.llm_calls} model calls.",
        err=True,
    )
    return out


# --- the service to measure ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Opened:
    target: HeliographTarget
    referee: Referee | None


@asynccontextmanager
async def _opened(wanted: Wanted, passages: Sequence[questions.Passage]) -> AsyncIterator[_Opened]:
    name = wanted.workspace or _workspace(wanted.folder, passages)
    if not re.fullmatch(WORKSPACE, name):
        raise Invalid(f"{name!r} cannot be a workspace: letters, digits, . _ -, at most 64.")
    settings = load()
    typer.echo(f"Workspace {name}.", err=True)
    async with AsyncExitStack() as stack:
        if wanted.url:
            target = await stack.enter_async_context(
                heliograph(wanted.url, name, key=wanted.key, seconds=SECONDS)
            )
            needed = bool(wanted.pairs or wanted.sizes)
            referee = await _own_referee(stack, settings) if needed else None
            yield _Opened(target, referee)
            return
        wired = await stack.enter_async_context(embedded_queue(settings))
        services = await stack.enter_async_context(open_services(wired))
        target = await stack.enter_async_context(_in_process(wired, services, name))
        yield _Opened(target, services.models.referee)


async def _own_referee(stack: AsyncExitStack, settings: Settings) -> Referee | None:
    """The one of our settings, whatever server is measured."""
    wired = await stack.enter_async_context(embedded_queue(settings))
    models, _ = await open_models(stack, wired)
    return models.referee


@asynccontextmanager
async def _in_process(
    settings: Settings, services: Services, workspace: str
) -> AsyncIterator[HeliographTarget]:
    """API and worker as `serve` has them, without a port. Where keys close the service a key of its
    own opens it, for as long as this runs."""
    from workers.main import working  # noqa: PLC0415  heavy, and no other command needs it

    headers = {"X-Workspace": workspace}
    async with AsyncExitStack() as stack:
        if await services.keyring.all():
            secret, made = make_key("evaluate", Scope.WRITE, [workspace], now=time.time())
            await services.keyring.add(made)
            stack.push_async_callback(services.keyring.revoke, made.id)
            headers["Authorization"] = f"Bearer {secret}"
        await stack.enter_async_context(working(services, settings))
        transport = httpx.ASGITransport(app=create_app(settings, services))
        client = httpx.AsyncClient(
            transport=transport, base_url=EMBEDDED, headers=headers, timeout=None
        )
        yield HeliographTarget(await stack.enter_async_context(client))


def _workspace(folder: Path, passages: Sequence[questions.Passage]) -> str:
    """The same documents, the same workspace: a second run stores nothing."""
    digest = QuestionSet("", tuple(passages), ()).digest
    return f"evaluate-{_plain(folder.resolve().name)[:40]}-{digest[:10]}"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "set"


def _digest(found: QuestionSet) -> str:
    asked = [questions.Passage(case.id, "", repr(case)) for case in found.cases]
    return QuestionSet("", tuple(asked), ()).digest


# --- what people see -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Bar:
    """A progress bar on standard error, or nothing where nobody looks."""

    what: str
    progress: Progress = field(init=False)

    def __enter__(self) -> Told:
        self.progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(), console=Console(stderr=True),
            disable=not sys.stderr.isatty(), transient=True,
        )  # fmt: skip
        self.progress.start()
        task = self.progress.add_task(self.what, total=None)
        return lambda done, total: self.progress.update(task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self.progress.stop()


def _progress(what: str) -> _Bar:
    return _Bar(what)


def _tell_ingested(ingested: Ingested) -> None:
    held = "were there already" if ingested.reused else f"stored in {ingested.seconds:.0f} s"
    typer.echo(f"{ingested.documents} documents, {held}.", err=True)
    for id, why in list(ingested.failed.items())[:5]:
        typer.echo(f"{id} failed: {why}", err=True)
    if len(ingested.failed) > 5:
        typer.echo(f"{len(ingested.failed) - 5} more failed.", err=True)
    if ingested.failed and len(ingested.failed) == ingested.documents:
        raise Invalid("No document could be read, so there is nothing to measure.")


def _show(made: report.Report, out: Path) -> None:
    console = Console(width=None if sys.stdout.isatty() else 200)
    for table in report.tables(made):
        shown = RichTable(title=table.title, title_justify="left")
        for place, name in enumerate(table.head):
            shown.add_column(name, justify="right" if place else "left", no_wrap=True)
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    for sentence in made.results.summary:
        typer.echo(sentence)
    typer.echo(f"Written to {out}: result.json, report.md and plots.", err=True)
