"""Runs case files against the whole service: `python -m tests.cases.runner FILE … [--only ID,…]`.

Each case gets a workspace of its own in a service that others use too, or, where it starts, stops
or disturbs things, a service of its own. Cases about stores also run on Neo4j, Redis and Qdrant,
where what needs several processes or a wire to a store runs only; `STACK=neo4j` runs all there.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cases import graph_checks, model_checks, stored, trouble  # noqa: F401  they register
from tests.cases.checks import in_order, judge
from tests.cases.deployment import EMBEDDED, SERVERS, Deployment
from tests.cases.grounds import STORES, Grounds, grounds
from tests.cases.record import Case, Unusable, load, script
from tests.cases.run import Failed, Run
from tests.cases.steps import perform
from tests.servers import Missing

# Steps after which a service is not as others expect it.
OWN = {"start", "restart", "proc", "redis", "fault", "clock", "key", "jwt", "find_files", "touch"}
ON_WIRES = {"request_bytes_max", "round_trips_max"}  # an embedded store has none
OWN_CHECKS = {
    "files_outside", "file_exists", "no_outgoing_to", "dump_lacks", "start", "started",
    "fingerprint_equals", "request_bytes_max", "round_trips_max",
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    id: str
    stack: str
    passed: bool
    why: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    left_out: bool = False


def stacks_of(case: Case, wanted: str) -> list[str]:
    """Where a case runs when `wanted` is the stack to use."""
    if wanted == SERVERS or needs_servers(case):
        return [SERVERS]
    wires = any(ON_WIRES & set(told) for told in case.checks)
    return [EMBEDDED, SERVERS] if wires or case.area == "stores" else [EMBEDDED]


def needs_servers(case: Case) -> bool:
    for one in case.all_steps():
        op = one.get("op")
        if op == "redis" or (op == "proc" and one.get("what", "all") not in ("all", "service")):
            return True
        if op in ("start", "restart") and (one.get("api", 1) > 1 or one.get("worker", 1) > 1):
            return True
        if op == "fault" and STORES.get(str(one.get("store"))) not in ("model", None):
            return True
    return False


def needs_own(case: Case) -> bool:
    """Whether others must not use its service."""
    if any(one.get("op") in OWN or "/admin" in str(one.get("path")) for one in case.all_steps()):
        return True
    return any(OWN_CHECKS & set(told) for told in case.checks)


class Runner:
    """Runs cases one after the other, on services that it keeps as long as they can be shared."""

    def __init__(self, base: Grounds, folder: Path) -> None:
        self._base = base
        self._folder = folder
        self._shared: dict[str, Deployment] = {}
        self._count = 0

    def run(self, case: Case, stack: str) -> Result:
        began = time.monotonic()
        notes: tuple[str, ...] = ()
        try:
            with self.service(case, stack) as run:
                why = _outcome(run)
                notes = tuple(run.notes)
        except Missing as missing:
            return Result(case.id, stack, False, str(missing), left_out=True)
        except Exception as error:
            why = _told(error)
        seconds = time.monotonic() - began
        return Result(case.id, stack, not why, why, seconds, notes)

    @contextmanager
    def service(self, case: Case, stack: str, *, own: bool | None = None) -> Iterator[Run]:
        """A run of the case that has not begun, on a service that is up (unless it starts one)."""
        alone = needs_own(case) if own is None else own
        if stack == SERVERS:
            self._base.servers()
            self.drop_shared(SERVERS) if alone else None  # its own one empties the servers
        deployment = self._new(stack) if alone else self._shared_one(stack)
        run = Run(case, self._base, deployment)
        run.again = lambda other: self._again(other, run)
        run.prefix = "" if alone else re.sub(r"[^A-Za-z0-9._-]", "-", f"{case.id}-{self._count}")
        run.names |= {
            "fake": self._base.fake, "tmp": deployment.folder / "tmp",
            "data": deployment.data, "base": str(deployment.clients[0].base_url).rstrip("/")
            if deployment.clients else "",
        }  # fmt: skip
        try:
            self._base.close_wires()
            if alone and not _starts(case):
                deployment.start({})
            self._base.tell(script(case))
            yield run
        finally:
            self._base.close_wires()
            for trap in run.traps.values():
                trap.shutdown()
                trap.server_close()
            if alone:
                deployment.stop()
                if stack == SERVERS and not self._base.redis_up:
                    self._base.servers()

    @contextmanager
    def _again(self, case: Case, like: Run) -> Iterator[Run]:
        """The same stack anew, after all steps of the case; `like` has no service any more."""
        like.service.stop()
        deployment = self._new(like.service.kind)
        try:
            deployment.start(like.env)
            self._base.close_wires()
            self._base.tell(script(case))
            run = Run(case, self._base, deployment, prefix=like.prefix, names=dict(like.names))
            for told in (*case.steps, {"op": "wait_all", "within_s": 300}, {"op": "wait_idle"}):
                perform(run, told)
            yield run
        finally:
            deployment.stop()

    def close(self) -> None:
        for stack in list(self._shared):
            self.drop_shared(stack)

    def drop_shared(self, stack: str) -> None:
        if deployment := self._shared.pop(stack, None):
            deployment.stop()

    def _shared_one(self, stack: str) -> Deployment:
        self._count += 1
        known = self._shared.get(stack)
        if known is None or not all(part.up for part in known.parts):
            self.drop_shared(stack)
            known = self._shared[stack] = self._new(stack)
            self._base.tell({})
            known.start({})
        return known

    def _new(self, stack: str) -> Deployment:
        self._count += 1
        return Deployment(self._base, stack, self._folder / f"{stack}-{self._count}")


def _starts(case: Case) -> bool:
    return bool(case.steps) and case.steps[0].get("op") == "start"


def _outcome(run: Run) -> str:
    """Everything that is wrong; "" if nothing is."""
    faults = []
    try:
        for step in run.case.steps:
            perform(run, step)
    except Exception as error:
        faults.append(f"{step.get('op')}: {_told(error)}")
    for told in in_order(run.case.checks):
        try:
            if fault := judge(run, told):
                faults.append(fault)
        except Exception as error:
            faults.append(f"{next(iter(told), '?')}: {_told(error)}")
    return " | ".join(faults)


def _told(error: Exception) -> str:
    if isinstance(error, (Unusable, Failed)):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"


@contextmanager
def running(kept: Path | None = None) -> Iterator[Runner]:
    """A runner whose data and logs go at the end, unless they are to be kept."""
    with ExitStack() as stack:
        folder = kept or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="heliograph-cases-"))
        )
        with grounds(folder / "grounds") as base:
            runner = Runner(base, folder)
            try:
                yield runner
            finally:
                runner.close()


def ordered(runs: list[tuple[Case, str]]) -> list[tuple[Case, str]]:
    """Shared services first and stack by stack, so that each is started once."""
    return sorted(runs, key=lambda run: (run[1] == SERVERS, needs_own(run[0])))


def run_all(
    cases: Sequence[Case], stack: str, report: Callable[[Result], None], kept: Path | None = None
) -> list[Result]:
    """Each result is reported as it comes."""
    todo = ordered([(case, where) for case in cases for where in stacks_of(case, stack)])
    results = []
    with running(kept) as runner:
        for case, where in todo:
            results.append(runner.run(case, where))
            report(results[-1])
    return results


def _line(result: Result) -> str:
    state = "left out" if result.left_out else "pass" if result.passed else "FAIL"
    why = "; ".join([result.why, *result.notes] if result.why else result.notes)
    where = "" if result.stack == EMBEDDED else f" [{result.stack}]"
    return f"{result.id + where:<26} {state:<8} {result.seconds:6.1f} s  {why[:600]}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="ids or areas, with commas")
    parser.add_argument("--stack", default=os.environ.get("STACK") or EMBEDDED)
    parser.add_argument("--keep", type=Path, help="new folder for data and logs, which stay")
    options = parser.parse_args(arguments)
    only = {part for part in options.only.split(",") if part}
    try:
        cases = [case for file in options.files for case in load(file)]
    except (OSError, Unusable) as error:
        print(error, file=sys.stderr)
        return 2
    cases = [c for c in cases if not only or c.id in only or c.area in only]
    began = time.monotonic()
    results = run_all(cases, options.stack, lambda one: print(_line(one), flush=True), options.keep)
    failed = [one for one in results if not one.passed and not one.left_out]
    left_out = sum(one.left_out for one in results)
    print(
        f"\n{len(results)} runs of {len(cases)} cases: {len(results) - len(failed) - left_out} "
        f"passed, {len(failed)} failed, {left_out} left out, {time.monotonic() - began:.0f} s"
    )
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
