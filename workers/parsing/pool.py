"""The parent's side: child processes that wait for documents, one per thread of a small executor.

Threads rather than asyncio transports, because a child should outlive the event loop that first
used it, and because a thread can wait with a deadline. A child ends when its input is closed, so
none is left behind however this process ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from workers.parsing.layout import Limits

Reply = dict[str, Any]
_SIZE = struct.Struct(">Q")
_LOST: Reply = {"code": "damaged", "cause": "lost"}
_LATE: Reply = {"code": "too_complex", "cause": "timeout"}
_STOPPED: Reply = {"code": "too_complex", "cause": "cancelled"}


class Order:
    """One document on its way through a child. `cancel` may be called from any thread."""

    def __init__(self, data: bytes, media_type: str, limits: Limits) -> None:
        self.data = data
        self.head = json.dumps({"media_type": media_type, "limits": asdict(limits)}).encode()
        self.seconds = limits.seconds
        self._lock = threading.Lock()
        self._child: Child | None = None
        self.cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
            if self._child is not None:
                self._child.kill()

    def run(self, child: Child) -> Reply:
        with self._lock:
            if self.cancelled:
                return _STOPPED
            self._child = child
        try:
            return child.ask(self.head, self.data, self.seconds)
        finally:
            with self._lock:
                self._child = None


class Child:
    """A waiting interpreter. It sees no secrets: its environment is empty but for import paths."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-B", "-X", "utf8", "-m", "workers.parsing.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._sink, self._source = self._process.stdin, self._process.stdout

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, head: bytes, data: bytes, seconds: float) -> Reply:
        """The child's answer; it is killed if that takes longer than `seconds`."""
        try:
            for block in (head, data):
                self._sink.write(_SIZE.pack(len(block)))
                self._sink.write(block)
            self._sink.flush()
            deadline = time.monotonic() + seconds
            size = _SIZE.unpack(self._read(_SIZE.size, deadline))[0]
            reply: Reply = json.loads(self._read(size, deadline))
        except TimeoutError:
            self.kill()
            return _LATE
        except (OSError, EOFError, ValueError):
            self.kill()
            return _LOST
        return reply

    def _read(self, size: int, deadline: float) -> bytes:
        block = bytearray()
        file = self._source.fileno()
        while len(block) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([file], [], [], left)[0]:
                raise TimeoutError
            part = os.read(file, min(size - len(block), 1 << 20))
            if not part:
                raise EOFError
            block += part
        return bytes(block)

    def kill(self) -> None:
        """The child and its fork: they are a session of their own."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        for stream in (self._sink, self._source):
            with contextlib.suppress(OSError):  # from what was still buffered for a dead child
                stream.close()
        self._process.wait()


class Pool:
    """At most `size` documents are parsed at a time; more wait for a free thread."""

    def __init__(self, size: int) -> None:
        self._executor = ThreadPoolExecutor(size, thread_name_prefix="parsing")
        self._own = threading.local()
        self._lock = threading.Lock()
        self._children: set[Child] = set()

    @property
    def executor(self) -> ThreadPoolExecutor:
        return self._executor

    def parse(self, order: Order) -> Reply:
        """To be run by the executor. A child that died since its last document is replaced."""
        child: Child | None = getattr(self._own, "child", None)
        if child is None or not child.alive:
            child = self._replace(child)
        reply = order.run(child)
        if not child.alive or reply in (_LOST, _LATE):
            self._discard(child)
        return reply

    def close(self) -> None:
        with self._lock:
            children, self._children = self._children, set()
        for child in children:
            child.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _replace(self, old: Child | None) -> Child:
        if old is not None:
            self._discard(old)
        child = Child()
        self._own.child = child
        with self._lock:
            self._children.add(child)
        return child

    def _discard(self, child: Child) -> None:
        self._own.child = None
        with self._lock:
            self._children.discard(child)
        child.close()
