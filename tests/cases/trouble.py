"""Steps that touch the world around the service: processes, servers, clock, files, keys."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import signal
import threading
import time
from pathlib import Path
from typing import Any

from tests.cases.deployment import EMBEDDED, SERVERS
from tests.cases.grounds import STORES
from tests.cases.record import Unusable
from tests.cases.run import Failed, Run
from tests.cases.steps import FINAL, Local, Step, perform, step
from tests.cases.wire import Fault, Proxy

SIGNALS = {
    "kill -9": signal.SIGKILL, "kill": signal.SIGKILL, "sigkill": signal.SIGKILL,
    "stop": signal.SIGTERM, "terminate": signal.SIGTERM, "sigterm": signal.SIGTERM,
}  # fmt: skip
SEED_ON_SERVERS = 2000  # a test's Neo4j has little memory; the embedded stack gets all of them
UNITS = {"s": 1, "seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}


# --- processes -----------------------------------------------------------------------------------


@step("start")
def start(run: Run, told: Step, _local: Local) -> None:
    _start(run, told, told.get("env") or {})


@step("restart")
def restart(run: Run, told: Step, _local: Local) -> None:
    _start(run, told, {**run.env, **(told.get("env") or {})})


def _start(run: Run, told: Step, env: dict[str, Any]) -> None:
    refused = str(told.get("expect", "")).startswith("refuse")
    for part in ("api", "worker"):
        run.processes[part] = int(told.get(part, run.processes[part]))
    up = run.service.start(
        env, api=run.processes["api"], worker=run.processes["worker"], refused=refused
    )
    run.env = env
    run.starts[str(told.get("as", ""))] = (up, run.service.refusal)
    if refused and up:
        raise Failed("the service started although it is to refuse that")
    run.moments["start"] = time.time()


@step("proc")
def proc(run: Run, told: Step, _local: Local) -> None:
    do, what = str(told.get("do", "kill -9")), str(told.get("what", "all"))
    if STORES.get(what):
        _server(run, do, what)
        return
    parts = run.service.pick(what, told.get("n"))
    if do in SIGNALS:
        for part in parts:
            part.end(SIGNALS[do])
        run.moments["kill"] = time.time()
    elif do in ("pause", "continue"):
        for part in parts:
            part.hint(signal.SIGSTOP if do == "pause" else signal.SIGCONT)
    elif do in ("start", "restart"):
        for part in parts:
            if do == "restart":
                part.end()
            part.start()
        run.service.wait_up()
        run.moments["start"] = time.time()
    else:
        raise Unusable(f"proc: unknown {do!r}")


def _server(run: Run, do: str, what: str) -> None:
    """A store or the model: to the service, one that refuses all connections is down."""
    for wire in run.grounds.of_store(what):
        wire.fault = None if do in ("start", "restart", "continue") else Fault(drop="refuse")
        wire.cut()


@step("redis")
def redis(run: Run, told: Step, _local: Local) -> None:
    do = str(told.get("do", told.get("action", "flush"))).lower()
    if run.service.kind == EMBEDDED:
        raise Unusable("redis: needs the stack with servers")
    if do in ("flush", "flushall", "empty", "clear", "lose"):
        run.grounds.redis.flushall()
    elif do in ("stop", "kill", "kill -9", "down"):
        run.grounds.redis_stop()
    elif do in ("start", "up"):
        run.grounds.servers()
    elif do == "restart":
        run.grounds.redis_stop()
        time.sleep(float(told.get("for_s", 0)))
        run.grounds.servers()
    else:
        raise Unusable(f"redis: unknown {do!r}")


# --- faults and time -----------------------------------------------------------------------------


@step("fault")
def fault(run: Run, told: Step, _local: Local) -> None:
    store = str(told.get("store", "model"))
    if store not in STORES:
        raise Unusable(f"fault: no proxy stands before {store!r}")
    off = told.get("off") or told.get("clear") or told.get("do") in ("off", "clear", "end")
    made = None if off else _fault(told)
    wires: list[Proxy] = run.grounds.of_store(store)
    if not wires:
        raise Unusable(f"fault: {store} runs inside the service; needs the stack with servers")
    for wire in wires:
        wire.fault = made
        if made and made.drop in ("refuse", "hang"):
            wire.cut()


def _fault(told: Step) -> Fault:
    error = told.get("error", told.get("errors"))
    made = Fault(
        delay=float(told.get("delay_s", 0)), status=int(told.get("status", 0)),
        body=str(told.get("body", "")),
        until=time.monotonic() + float(told.get("for_s", "inf")),
        left=float(told.get("times", told.get("count", "inf"))),
    )  # fmt: skip
    if isinstance(error, bool):
        made.drop = "reset" if error else ""
    elif isinstance(error, int):
        made.status = error
    elif isinstance(error, str):
        kinds = {"timeout": "hang", "refused": "refuse", "applied": "after", "cut": "reset"}
        made.drop = kinds.get(error, error)
        if made.drop not in ("refuse", "reset", "after", "hang"):
            raise Unusable(f"fault: unknown error {error!r}")
    if not (made.delay or made.status or made.drop):
        raise Unusable(f"fault: nothing to do in {dict(told)}")
    return made


@step("clock")
def clock(run: Run, told: Step, _local: Local) -> None:
    """Moves the clock of the service's processes (of Python's, hence of the embedded stores')."""
    moved = 0.0
    for name, value in told.items():
        unit = name.rpartition("_")[2]
        if name != "op" and unit in UNITS:
            back = name.startswith("back") or told.get("do") in ("back", "backward")
            moved += float(value) * UNITS[unit] * (-1 if back else 1)
    if not moved:
        raise Unusable(f"clock: nothing to do in {dict(told)}")
    before = run.service.clock.read_text() if run.service.clock.exists() else "0"
    run.service.clock.write_text(str(float(before or 0) + moved))
    if run.service.kind == SERVERS:
        run.notes.append("the clock of Neo4j itself was not moved")
    time.sleep(0.1)


@step("seed_graph")
def seed_graph(run: Run, told: Step, local: Local) -> None:
    """A hub with so many neighbours, by way of documents that name them."""
    hub, relations = str(told.get("hub", "Hub Corp")), int(told.get("relations", 1000))
    if run.service.kind == SERVERS and relations > SEED_ON_SERVERS:
        run.notes.append(f"seeded {SEED_ON_SERVERS} relations instead of {relations}")
        relations = SEED_ON_SERVERS
    per = 5000  # sentences, so that several workers have something to do
    name = str(told.get("as", "seed"))
    for number, first in enumerate(range(0, relations, per)):
        text = " ".join(
            f"{hub} deals with Partner{i}." for i in range(first, min(first + per, relations))
        )
        doc = f"{name}{number or ''}"
        body = {"text": text, "name": f"{doc}.txt"}
        perform(run, {"op": "upload", "as": doc, "json": body}, local)
    perform(run, {"op": "wait_all", "within_s": told.get("within_s", 600)}, local)
    for doc in [d for d in run.docs if d.startswith(name)]:
        if (seen := run.document(doc)) is None or seen["status"] != FINAL[0]:
            raise Failed(f"the seed {doc} did not become ready: {seen or run.reply(doc)}"[:500])


# --- files, sockets, keys ------------------------------------------------------------------------


@step("touch")
def touch(run: Run, told: Step, _local: Local) -> None:
    path = Path(str(told["path"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(told.get("content", told.get("text", "untouched"))))
    run.touched.add(str(path))


@step("find_files")
def find_files(run: Run, told: Step, _local: Local) -> None:
    root = Path(str(told.get("path", told.get("under", run.service.folder))))
    pattern = str(told.get("pattern", told.get("name", told.get("glob", "*"))))
    found = [str(path) for path in root.rglob(pattern) if path.is_file()]
    run.files[str(told.get("as", ""))] = sorted(found)


class _Trap(http.server.ThreadingHTTPServer):
    daemon_threads = True
    hits = 0


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Trap

    def do_GET(self) -> None:
        self.server.hits += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"trapped")

    do_POST = do_PUT = do_HEAD = do_OPTIONS = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@step("listen")
def listen(run: Run, told: Step, _local: Local) -> None:
    """`{trap}` is its address; ends with the case."""
    trap = _Trap(("127.0.0.1", int(told.get("port", 0))), _Handler)
    threading.Thread(target=trap.serve_forever, daemon=True).start()
    name = str(told.get("as", "trap"))
    run.traps[name] = trap
    run.names[name] = f"http://127.0.0.1:{trap.server_address[1]}"
    run.names[f"{name}_port"] = trap.server_address[1]


@step("key")
def key(run: Run, told: Step, _local: Local) -> None:
    """The first key must be an admin's, so the runner makes one for itself before."""
    if not run.service.secret:
        run.service.secret = _made(run, {"scope": "admin", "label": "runner"})
    where = told.get("workspaces", [told["workspace"]] if told.get("workspace") else [])
    body = {"scope": told.get("scope", "read"), "workspaces": where, "label": "case"}
    run.names[str(told["as"])] = _made(run, body)


def _made(run: Run, body: dict[str, Any]) -> str:
    reply = run.send("POST", "/admin/keys", json=body)
    if reply.status_code != 201:
        raise Failed(f"key: {reply.status_code} {reply.text[:200]}")
    return str(reply.json()["secret"])


@step("jwt")
def jwt(run: Run, told: Step, local: Local) -> None:
    """This service knows keys only, so every token of another make must be refused; one that is
    plainly meant to be valid stands for a key with its rights."""
    claims = dict(told.get("claims") or told.get("payload") or {})
    header = {"typ": "JWT", "alg": "HS256", **(told.get("header") or {})}
    header["alg"] = told.get("alg", header["alg"])
    expires = claims.get("exp", told.get("expires_s"))
    stale = expires is not None and float(expires) < (time.time() if "exp" in claims else 0)
    forged = any(told.get(k) for k in ("secret", "key", "tamper", "forged", "invalid", "expired"))
    if not (stale or forged or str(header["alg"]).lower() == "none"):
        scope = claims.get("scope", claims.get("role", told.get("scope", "read")))
        where = claims.get("workspace", told.get("workspace"))
        key(run, {"as": told["as"], "scope": scope, "workspace": where}, local)
        run.notes.append("jwt: an API key of the same rights stands for it")
        return
    body = ".".join(_base64(json.dumps(part).encode()) for part in (header, claims))
    sign = "" if str(header["alg"]).lower() == "none" else _base64(
        hmac.new(str(told.get("secret", "secret")).encode(), body.encode(), hashlib.sha256).digest()
    )  # fmt: skip
    run.names[str(told["as"])] = f"{body}.{sign}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
