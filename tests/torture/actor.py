"""A client process of a torture run: `python -m tests.torture.actor CAST_AS_JSON`.

The actor goes on until its standard input ends, then closes all and writes `Done`. A killed
writer is followed by another incarnation, which knows nothing of the first one. A watcher goes
on from the last event in its log.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct

from sessiond_client import BlockingSubscription, Cursor, RpcError, connect, connect_blocking
from sessiond_client.blocking import BlockingClient
from tests.processes.harness.daemon import SESSIOND
from tests.torture.acts import MIXES, Acts
from tests.torture.beside import Stranger
from tests.torture.client_ports import PATIENT, BlockingPort, TaskPort, write_down
from tests.torture.raw_port import Outcome, RawPort, Watch
from tests.torture.records import (
    Act,
    Answered,
    Closed,
    Connected,
    Done,
    Log,
    Refused,
    Watching,
    now,
)
from tests.torture.wires import socket_wire, stdio_wire
from tests.torture.world import World

__all__ = ["Cast"]

TASKS: Final = 3
HANG_UP_SHARE: Final = 0.004
FOR_EVER_SECONDS: Final = 1e6


class Cast(Struct, frozen=True, omit_defaults=True):
    """The role of an actor.

    `client`: raw, stdio, blocking, tasks; `part`: watch, or a mix's name.
    """

    name: str
    client: str
    part: str
    socket: str
    home: str
    log: str
    seed: int
    sessions: list[str]
    options: dict[str, Any] = {}
    cursors: dict[str, tuple[int, str]] = {}
    naps: float = 0.0
    """Seconds for which a watcher reads nothing, at most; again and again."""


def must_stop(seconds: float = 0.0) -> bool:
    """Return whether standard input has ended."""
    return bool(select.select([0], [], [], seconds)[0])


def learn(world: World, outcomes: list[tuple[Act, Outcome]]) -> None:
    for act, outcome in outcomes:
        match outcome:
            case Answered():
                world.learn(act, outcome.sight)
            case Refused():
                world.refuse(act, outcome.kind, outcome.data)
            case _:
                pass


def acts_of(cast: Cast, name: str, seed: int) -> Acts:
    return Acts(name, Random(seed), MIXES[cast.part])


# -- raw connections -------------------------------------------------------------------------


def raw_port(cast: Cast, log: Log) -> RawPort:
    if cast.client == "stdio":
        environment = {**os.environ, "SESSIOND_HOME": cast.home}
        connect_ = stdio_wire([SESSIOND, "stdio", "--socket", cast.socket], environment)
    else:
        connect_ = socket_wire(Path(cast.socket))
    return RawPort(cast.name, log, connect_, Watch(cast.sessions, cast.options, cast.cursors))


def act_raw(cast: Cast, log: Log) -> None:
    """Bursts on one connection, with a subscription on every session beside them."""
    port, world = raw_port(cast, log), World(cast.sessions)
    acts, chance = acts_of(cast, cast.name, cast.seed), Random(cast.seed + 1)
    while not must_stop():
        if port.open():
            world.reconnected()
        learn(world, port.exchange(acts.draw(world)))
        if chance.random() < HANG_UP_SHARE:
            port.hang_up()
    port.hang_up()


def watch_raw(cast: Cast, log: Log) -> None:
    """Receive events only; at the end a flush shows where each subscription is."""
    port, chance = raw_port(cast, log), Random(cast.seed)
    while not must_stop(chance.uniform(0, cast.naps)):
        port.open()
        port.listen(0.2)
        if chance.random() < HANG_UP_SHARE:
            port.hang_up()
    flushed = False
    while not flushed or port.is_flushing:
        # A connection that ends meanwhile is made again, and asked again.
        if port.open():
            flushed = False
        port.listen(0.2)
        if not flushed and port.is_settled:
            port.flush()
            flushed = True
    port.hang_up()


# -- our own clients -------------------------------------------------------------------------


def act_blocking(cast: Cast, log: Log) -> None:
    world, acts = World(cast.sessions), acts_of(cast, cast.name, cast.seed)
    with connect_blocking(cast.socket, home=cast.home, client_id=cast.name, **PATIENT) as client:
        port = BlockingPort(cast.name, log, client)
        while not must_stop():
            learn(world, port.exchange(acts.draw(world)))


async def act_in_tasks(cast: Cast, log: Log) -> None:
    async def act(client: Any, name: str, seed: int) -> None:
        world, acts = World(cast.sessions), acts_of(cast, name, seed)
        port = TaskPort(name, log, client)
        while not must_stop():
            learn(world, await port.exchange(acts.draw(world)))

    async with (
        connect(cast.socket, home=cast.home, client_id=cast.name, **PATIENT) as client,
        anyio.create_task_group() as tasks,
    ):
        for task in range(TASKS):
            tasks.start_soon(act, client, f"{cast.name}:{task}", cast.seed + task)


def watch_blocking(cast: Cast, log: Log) -> None:
    """Watch each session in a thread of its own; flush each at the end."""
    with connect_blocking(cast.socket, home=cast.home, client_id=cast.name, **PATIENT) as client:
        threads = [
            threading.Thread(target=watch_one, args=(cast, log, client, session))
            for session in cast.sessions
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def watch_one(cast: Cast, log: Log, client: BlockingClient, session: str) -> None:
    conn = f"{cast.name}/{session}"
    at = cast.cursors.get(session, (0, ""))
    after = Cursor(at[0], entry_id=at[1]) if at[0] else Cursor(0)
    log.add(Connected(now(), conn, "library"))
    types, heads = cast.options.get("types"), cast.options.get("heads")
    try:
        with client.subscribe(session, after=after, **cast.options) as events:
            log.add(
                Watching(
                    now(),
                    conn,
                    session,
                    0,
                    "",
                    at[0],
                    tuple(types) if types else None,
                    tuple(heads) if heads else None,
                )
            )
            threading.Thread(target=flush_at_the_end, args=(events,), daemon=True).start()
            for event in events:
                write_down(log, conn, session, event)
                if type(event).__name__ == "Flushed":
                    return
    except RpcError as refused:
        log.add(Closed(now(), conn, session, refused.kind))


def flush_at_the_end(events: BlockingSubscription) -> None:
    must_stop(FOR_EVER_SECONDS)
    events.request_flush()


def main() -> None:
    cast = msgspec.json.decode(sys.argv[1], type=Cast)
    log = Log(Path(cast.log))
    match cast.client, cast.part:
        case (("raw" | "stdio"), "watch"):
            watch_raw(cast, log)
        case (("raw" | "stdio"), _):
            act_raw(cast, log)
        case "file", _:
            profile = Path(cast.home) / "profiles" / "default"
            Stranger(cast.name, log, Random(cast.seed)).go_on(profile, must_stop)
        case _, "watch":
            watch_blocking(cast, log)
        case "tasks", _:
            anyio.run(act_in_tasks, cast, log)
        case _:
            act_blocking(cast, log)
    log.add(Done(now(), cast.name))


if __name__ == "__main__":
    main()
