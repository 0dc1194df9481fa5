"""The queue on every server it may meet: Valkey, Debian's Redis, and the embedded Valkey."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from arq.connections import create_pool
from arq.worker import Retry, Worker, func

from app.domain import Ticket
from app.errors import Misconfigured, Unavailable
from app.stores.queue import (
    ARQ_MARGIN,
    FUNCTION,
    JOB_SECONDS,
    QUEUE_NAME,
    ArqQueue,
    decode,
    embedded_valkey,
    encode,
    job_id,
    redis_settings,
)


@pytest.fixture(
    params=[
        "embedded",
        pytest.param("valkey", marks=pytest.mark.server),
        pytest.param("redis", marks=pytest.mark.server),
    ]
)
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        if request.param == "embedded":
            address = await stack.enter_async_context(embedded_valkey(tmp_path))
        else:
            address = request.getfixturevalue(f"{request.param}_url")
        pool = await stack.enter_async_context(await create_pool(redis_settings(address)))
        await pool.flushdb()
        yield address


@pytest.fixture
async def queue(url: str) -> AsyncIterator[ArqQueue]:
    async with ArqQueue.open(url) as opened:
        yield opened


async def work(url: str, function: object, *, tries: int = 10) -> list[str]:
    """Runs everything that is due on a real worker; returns the step ids in the order of runs."""
    ran: list[str] = []

    async def run_step(ctx: dict[str, object], step_id: str) -> None:
        ran.append(step_id)
        if callable(function):
            await function(ctx, step_id)

    # Without `Worker.close`, which calls a method that redis-py has deprecated.
    async with await create_pool(redis_settings(url)) as pool:
        worker = Worker(
            [func(run_step, name=FUNCTION, keep_result=0, max_tries=tries)],
            queue_name=QUEUE_NAME,
            redis_pool=pool,
            job_serializer=encode,
            job_deserializer=decode,
            burst=True,
            poll_delay=0.01,
            handle_signals=False,
        )
        await worker.async_run()
    return ran


async def test_a_worker_gets_what_was_sent(url: str, queue: ArqQueue) -> None:
    await queue.send([Ticket("job.parse.0", 0), Ticket("job.extract.1", 3)])
    assert await queue.depth() == 2
    assert sorted(await work(url, None)) == ["job.extract.1", "job.parse.0"]
    assert await queue.depth() == 0


async def test_a_waiting_ticket_is_not_sent_twice(url: str, queue: ArqQueue) -> None:
    ticket = Ticket("job.parse.0", 0)
    await queue.send([ticket, ticket])
    await asyncio.gather(*(queue.send([ticket]) for _ in range(8)))
    assert await queue.depth() == 1
    assert await work(url, None) == ["job.parse.0"]


async def test_the_next_attempt_may_be_sent_while_the_former_one_still_runs(
    url: str, queue: ArqQueue
) -> None:
    async def give_back_once(ctx: dict[str, object], step_id: str) -> None:
        if ctx["job_id"] == "s#0":
            await queue.send([Ticket("s", 1)])

    await queue.send([Ticket("s", 0)])
    assert await work(url, give_back_once) == ["s", "s"]


async def test_a_ticket_can_be_sent_again_after_it_ran(url: str, queue: ArqQueue) -> None:
    for _ in range(2):
        await queue.send([Ticket("s", 0)])
        assert await work(url, None) == ["s"]


async def test_what_a_worker_took_and_never_claimed_runs_again_when_it_is_sent_again(
    url: str, queue: ArqQueue
) -> None:
    await queue.send([Ticket("s", 0)])
    async with await create_pool(redis_settings(url)) as pool:
        # As arq leaves it when its worker is killed: for as long as the longest job may take.
        mark, taken = "arq:in-progress:s#0", 1000 * (JOB_SECONDS + ARQ_MARGIN)
        await pool.psetex(mark, taken, b"1")
        await queue.send([Ticket("s", 0)])
        assert await pool.exists(mark)  # it may be about to claim the step
        await pool.psetex(mark, taken - 60_000, b"1")
        await queue.send([Ticket("s", 0)])
    assert await work(url, None) == ["s"]


async def test_a_delayed_ticket_waits(url: str, queue: ArqQueue) -> None:
    await queue.send([Ticket("later", 0)], delay=3600)
    await queue.send([Ticket("now", 0)])
    async with await create_pool(redis_settings(url)) as pool:
        scores = dict(await pool.zrange(QUEUE_NAME, 0, -1, withscores=True))
    assert 3_590_000 < scores[b"later#0"] - scores[b"now#0"] < 3_600_001


async def test_a_backlog_of_a_week_is_still_there(url: str, queue: ArqQueue) -> None:
    await queue.send([Ticket("s", 0)])
    async with await create_pool(redis_settings(url)) as pool:
        assert await pool.ttl("arq:job:s#0") > 7 * 86_400


async def test_a_large_batch_goes_through_few_connections(url: str, queue: ArqQueue) -> None:
    await queue.send([Ticket(f"job.extract.{n}", 0) for n in range(2_000)])
    assert await queue.depth() == 2_000


async def test_nothing_to_send_is_no_call(queue: ArqQueue) -> None:
    await queue.send([])
    assert await queue.depth() == 0


async def test_a_step_may_ask_to_run_later(url: str, queue: ArqQueue) -> None:
    async def busy_twice(ctx: dict[str, object], step_id: str) -> None:
        if ctx["job_try"] != 3:
            raise Retry(defer=0.01)

    await queue.send([Ticket("s", 0)])
    assert await work(url, busy_twice) == ["s", "s", "s"]


async def test_what_lies_in_the_server_is_json(url: str, queue: ArqQueue) -> None:
    await queue.send([Ticket("s", 0)])
    async with await create_pool(redis_settings(url)) as pool:
        raw = await pool.get("arq:job:s#0")
    assert decode(raw)["a"] == ["s"]


async def test_ping_names_server_and_version(url: str, queue: ArqQueue) -> None:
    name, version = (await queue.ping()).split()
    assert name in {"valkey", "redis"}
    assert version[0].isdigit()


# --- errors and addresses ------------------------------------------------------------------------


async def test_a_server_that_goes_away_is_unavailable(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with embedded_valkey(tmp_path) as url:
            queue = await stack.enter_async_context(ArqQueue.open(url))
            await queue.send([Ticket("s", 0)])
        for call in (queue.send([Ticket("s", 1)]), queue.depth(), queue.ping()):
            with pytest.raises(Unavailable):
                await call


async def test_a_password_with_special_characters_works(tmp_path: Path) -> None:
    async with embedded_valkey(tmp_path) as url:
        async with await create_pool(redis_settings(url)) as pool:
            await pool.config_set("requirepass", "p@ss/w:rd%")
        address = url.replace("unix://", "unix://default:p%40ss%2Fw%3Ard%25@localhost")
        async with ArqQueue.open(address) as queue:
            await queue.send([Ticket("s", 0)])
            assert await queue.depth() == 1


def test_addresses_are_read_with_user_database_and_encryption() -> None:
    settings = redis_settings("rediss://bob:a%2Fb@cache.example:6380/3")
    assert (settings.host, settings.port, settings.database) == ("cache.example", 6380, 3)
    assert (settings.username, settings.password, settings.ssl) == ("bob", "a/b", True)
    assert redis_settings("redis://h?db=2").database == 2
    assert redis_settings("unix:///run/a%20b.sock?db=1").unix_socket_path == "/run/a b.sock"


@pytest.mark.parametrize("url", ["redis://h:port", "redis://h/zero"])
def test_an_impossible_address_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="HELIOGRAPH_QUEUE_URL"):
        redis_settings(url)


def test_attempts_of_one_step_have_different_job_ids() -> None:
    assert job_id(Ticket("a.b.1", 0)) != job_id(Ticket("a.b.1", 1))


# --- the embedded server -------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_server_that_dies_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    monkeypatch.setattr("app.stores.queue.WATCH_SECONDS", 0.02)
    async with embedded_valkey(tmp_path) as url, ArqQueue.open(url) as queue:
        for life in range(2):
            await queue.send([Ticket(f"life-{life}", 0)])
            async with await create_pool(redis_settings(url)) as pool:
                pid = (await pool.info("server"))["process_id"]
            os.kill(pid, how)
            await until_empty(queue)
        await queue.send([Ticket("s", 0)])
        assert await queue.depth() == 1


async def until_empty(queue: ArqQueue) -> None:
    """As the new one is; meanwhile there may be none."""
    async with asyncio.timeout(30):
        while True:
            with suppress(Unavailable):
                if await queue.depth() == 0:
                    return
            await asyncio.sleep(0.02)


async def test_the_embedded_server_is_not_on_the_network(tmp_path: Path) -> None:
    async with embedded_valkey(tmp_path) as url:
        path = redis_settings(url).unix_socket_path or ""
        assert _mode(path) & 0o077 == 0
        async with await create_pool(redis_settings(url)) as pool:
            assert (await pool.config_get("port"))["port"] == "0"
    assert _mode(path) == 0


async def test_the_embedded_server_outlives_an_interrupt_from_the_terminal(tmp_path: Path) -> None:
    async with embedded_valkey(tmp_path) as url, ArqQueue.open(url) as queue:
        async with await create_pool(redis_settings(url)) as pool:
            os.kill((await pool.info("server"))["process_id"], signal.SIGINT)
        await queue.send([Ticket("s", 1)])
        await asyncio.sleep(0.2)
        assert await queue.depth() == 1


async def test_a_second_embedded_server_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    async with embedded_valkey(tmp_path) as url, ArqQueue.open(url) as queue:
        with pytest.raises(Misconfigured, match="in use by another process"):
            async with embedded_valkey(tmp_path):
                pass
        await queue.send([Ticket("s", 0)])
        assert await queue.depth() == 1


async def test_a_folder_with_a_long_path_works(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    async with embedded_valkey(folder) as url, ArqQueue.open(url) as queue:
        assert await queue.depth() == 0


async def test_the_server_of_a_killed_process_is_replaced(tmp_path: Path) -> None:
    orphan_url = await asyncio.to_thread(_orphan, tmp_path)
    async with await create_pool(redis_settings(orphan_url)) as orphan:
        old_process = (await orphan.info("server"))["process_id"]
    async with embedded_valkey(tmp_path) as url, await create_pool(redis_settings(url)) as pool:
        assert (await pool.info("server"))["process_id"] != old_process
        assert not _runs(old_process)


def _orphan(folder: Path) -> str:
    """URL of an embedded server whose owner was killed."""
    script = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from app.stores.queue import embedded_valkey\n"
        "async def main():\n"
        "    async with embedded_valkey(Path(sys.argv[1])) as url:\n"
        "        print(url, flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        url = owner.stdout.readline().strip()
        owner.kill()
    return url


def _mode(path: str) -> int:
    """Permissions of a file; 0 if there is none."""
    file = Path(path)
    return file.stat().st_mode & 0o777 if file.exists() else 0


def _runs(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process_id}/stat")
    return not (status.exists() and ") Z " in status.read_text())
