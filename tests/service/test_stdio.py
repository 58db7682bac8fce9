"""Connections over pipes, regular files, and standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from sessiond.limits import READ_BYTES
from sessiond.transports.base import FdPort
from tests.kit.patience import PATIENCE_SECONDS
from tests.service.transport_rig import Daemon, quiet, request

pytestmark = [pytest.mark.both_loops, pytest.mark.platform]


async def test_pipes_carry_a_connection_and_get_their_blocking_mode_back() -> None:
    daemon = Daemon()
    their_read, our_write = os.pipe()
    our_read, their_write = os.pipe()
    kept_read, kept_write = os.dup(our_read), os.dup(our_write)
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon.serve, FdPort(our_read, our_write))
            await quiet()
            assert not os.get_blocking(kept_read)
            # More than a pipe holds, both ways.
            data = b"".join(request(n, text="t" * 3000) for n in range(60))
            assert await to_thread.run_sync(os.write, their_write, data) == len(data)
            async with await anyio.open_file(their_read, "rb", closefd=False) as received:
                answers = [await received.readline() for _ in range(60)]
            os.close(their_write)
    assert [json.loads(line)["id"] for line in answers] == list(range(60))
    assert os.get_blocking(kept_read)
    assert os.get_blocking(kept_write)
    for fd in (kept_read, kept_write, their_read):
        os.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(our_read)


async def test_regular_files_which_no_poll_accepts_carry_a_connection(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    count = 3 * READ_BYTES // len(request(100))
    source.write_bytes(b"".join(request(n) for n in range(count)))
    daemon = Daemon()
    port = FdPort(
        os.open(source, os.O_RDONLY), os.open(target, os.O_WRONLY | os.O_CREAT, 0o600), "files"
    )
    with anyio.fail_after(PATIENCE_SECONDS):
        await daemon.serve(port)
    assert [json.loads(line)["id"] for line in target.read_bytes().splitlines()] == list(
        range(count)
    )


PROGRAM = """
import os, subprocess, sys
import anyio
from sessiond.rpc.dispatch import Dispatcher, Method
from sessiond.rpc.params import Params
from sessiond.service.byte_budget import ByteBudget
from sessiond.transports.serving import serve_connection
from sessiond.transports.stdio import serve_stdio

class Client:
    def chunk_begun(self): pass
    def chunk_done(self): pass
    def input_ended(self): pass
    def closed(self): pass

def handle(client, params, call):
    print("a stray print")
    os.write(1, b"a stray write\\n")
    subprocess.run(["cat"])
    subprocess.run(["echo", "a stray child"])
    return {"pong": True}

dispatcher = Dispatcher(
    [Method(name="ping", params=Params, result=None, handle=handle)],
    log_exception=print, allow=lambda client, method: None,
)
async def serve(port):
    await serve_connection(port, dispatcher, lambda connection: Client(), ByteBudget())

anyio.run(serve_stdio, serve, backend=sys.argv[1])
print("after")
"""


async def test_nothing_but_the_protocol_reaches_stdout(anyio_backend: str) -> None:
    ping = b'{"id":%d,"method":"ping"}\n'

    def run() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, anyio_backend],
            # More than one read between the two, which a child with our stdin would swallow.
            input=ping % 1 + b'{"method":"none"}\n' * (3 * READ_BYTES // 18) + ping % 2,
            capture_output=True,
            check=True,
            timeout=30,
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
        )

    done = await to_thread.run_sync(run)
    assert done.stdout == (
        b'{"jsonrpc":"2.0","id":1,"result":{"pong":true}}\n'
        b'{"jsonrpc":"2.0","id":2,"result":{"pong":true}}\n'
        b"after\n"
    )
    for stray in (b"a stray print", b"a stray write", b"a stray child"):
        assert done.stderr.count(stray) == 2
