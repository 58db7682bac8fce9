"""A client process of the kill test: it does one thing and writes down what it was told.

append SOCKET SESSION NAME LOG   append until standard input ends; a byte to standard
                                 output for every answer
watch SOCKET SESSION NAME LOG    see everything up to the entry END; NAME says in which way

It never looks after the daemon: that it goes on after a kill is the client library's doing.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Final

import anyio
import msgspec

from sessiond_client import (
    BlockingSubscription,
    Cursor,
    EntryEvent,
    Event,
    Flushed,
    Replaced,
    connect,
    connect_blocking,
)
from sessiond_client.results import Appended
from tests.processes.harness.history import Acknowledged, Seen, digest

END: Final = "the end"
PATIENT: Final[dict[str, Any]] = {"timeout": 60.0, "connect_timeout": 30.0}
TASKS: Final = 3
DRAFT_APPENDS: Final = 40
STAY: Final = 40


class Log:
    """Lines on disk as soon as they are said, so that they are there whatever happens next."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, record: Acknowledged | Seen) -> None:
        os.write(self._fd, msgspec.json.encode(record) + b"\n")


# -- appending --------------------------------------------------------------------------


def message(text: str, number: int) -> dict[str, Any]:
    """A message of one of many sizes; a kill may land inside the writing of a large one."""
    size = 200_000 if number % 40 == 39 else number * 37 % 4000
    # A session begins as a draft, and moves to its place with the first assistant message.
    role = "assistant" if number >= DRAFT_APPENDS else "user"
    return {"role": role, "content": f"{text}:{'x' * size}"}


def append_options(name: str, number: int) -> tuple[tuple[str, ...], dict[str, Any]]:
    """What the number-th append of this writer is: one message, one under a key, three at once."""
    text = f"{name}-{number}"
    if number % 5 == 4:
        texts = tuple(f"{text}{letter}" for letter in "abc")
        entries = [{"type": "message", "message": message(text, 0)} for text in texts]
        return texts, {"entries": entries}
    options: dict[str, Any] = {"message": message(text, number)}
    if number % 5 == 2:
        options["idempotency_key"] = text
    return (text,), options


def told(log: Log, name: str, texts: Sequence[str], stored: Appended) -> None:
    log.add(
        Acknowledged(
            by=name,
            texts=tuple(texts),
            seqs=tuple(entry.seq for entry in stored.entries),
            ids=tuple(entry.id for entry in stored.entries),
            duplicate=stored.duplicate,
        )
    )
    os.write(1, b".")


def must_stop() -> bool:
    return bool(select.select([0], [], [], 0)[0])


def append(socket: str, session_id: str, name: str, log: Log) -> None:
    with connect_blocking(socket, **PATIENT) as client:
        for number in count():
            if must_stop():
                return
            texts, options = append_options(name, number)
            told(log, name, texts, client.append(session_id, **options))


async def append_at_once(socket: str, session_id: str, name: str, log: Log) -> None:
    """The same with several appends under way on one connection."""

    async def go_on(name: str) -> None:
        for number in count():
            if must_stop():
                return
            texts, options = append_options(name, number)
            told(log, name, texts, await client.append(session_id, **options))

    async with connect(socket, **PATIENT) as client, anyio.create_task_group() as tasks:
        for task in range(TASKS):
            tasks.start_soon(go_on, f"{name}.{task}")


# -- watching ---------------------------------------------------------------------------


def record(event: Event) -> Seen | None:
    """What an event says about the log; None if nothing."""
    if isinstance(event, EntryEvent):
        return Seen(event.seq, event.name.id, digest(event.raw))
    return Seen(None, "", event.reason) if isinstance(event, Replaced) else None


def is_end(event: Event) -> bool:
    return isinstance(event, EntryEvent) and event.entry["message"]["content"] == END


def look(
    events: Iterable[Event], log: Log, *, flush: Callable[[], None], stay: int | None = None
) -> bool:
    """Write down what comes; True when END came and nothing was left behind it."""
    seen = 0
    ended = False
    for event in events:
        if (entry := record(event)) is not None:
            log.add(entry)
            seen += 1
        if is_end(event):
            ended = True
            flush()
        elif isinstance(event, Flushed):
            return True
        if seen == stay and not ended:
            return False
    return False


def watch(socket: str, session_id: str, log: Log, *, stay: int | None) -> None:
    """Watch to the end; with `stay` leave after so many entries, and come back where it was."""
    after: Cursor | None = Cursor(0)
    done = False
    with connect_blocking(socket, **PATIENT) as client:
        while not done:
            events: BlockingSubscription
            with client.subscribe(session_id, after=after) as events:
                done = look(events, log, flush=events.request_flush, stay=stay)
                after = events.position


async def watch_in_tasks(socket: str, session_id: str, log: Log) -> None:
    async with (
        connect(socket, **PATIENT) as client,
        client.subscribe(session_id, after=0) as events,
    ):
        async for event in events:
            if (entry := record(event)) is not None:
                log.add(entry)
            if is_end(event):
                events.request_flush()
            elif isinstance(event, Flushed):
                return


def main() -> None:
    act, socket, session_id, name, path = sys.argv[1:]
    log = Log(path)
    kind = name.partition("-")[0]
    if act == "append" and kind == "tasks":
        anyio.run(append_at_once, socket, session_id, name, log)
    elif act == "append":
        append(socket, session_id, name, log)
    elif kind == "tasks":
        anyio.run(watch_in_tasks, socket, session_id, log)
    else:
        watch(socket, session_id, log, stay=STAY if kind == "restless" else None)


if __name__ == "__main__":
    main()
