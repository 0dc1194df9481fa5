"""The listening socket of the lone process."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from app.errors import Misconfigured
from app.settings import Settings
from workers.standalone import _listener


async def test_connections_send_small_replies_at_once(tmp_path: Path) -> None:
    """asyncio leaves Nagle's algorithm on where a socket does not name its protocol; every reply
    then waits for the client's delayed acknowledgement, 40 ms."""
    seen: list[int] = []

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with _listener(Settings(_env_file=None, data_dir=tmp_path, port=0)) as listener:
        async with await asyncio.start_server(connected, sock=listener):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await reader.read()
            writer.close()
    assert seen == [1]


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(_env_file=None, data_dir=tmp_path, port=taken.getsockname()[1])
        with pytest.raises(Misconfigured, match="HELIOGRAPH_PORT"), _listener(settings):
            pass
