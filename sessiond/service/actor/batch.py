"""One batch of commands: staged together, stored together, settled together.

Staging never touches the session. What rests on staged entries, a duplicate or
a refusal among them, stands only if those become durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final, Literal

import msgspec
from msgspec import Struct

from sessiond.errors import HeadNotFound
from sessiond.model.events import Origin
from sessiond.model.row import Kind
from sessiond.service.actor.inbox import Act, Command
from sessiond.service.actor.leases import Leases
from sessiond.service.actor.plain_append import PlainAppend
from sessiond.service.environment import Environment
from sessiond.service.log.events import Event
from sessiond.service.log.open_session import OpenSession
from sessiond.session.draft import Draft

_ASSISTANT: Final = int(Kind.ASSISTANT)
_KIND: Final = attrgetter("kind")

RUNS = True
"""True if neighbouring plain appends are staged in runs; tests try both ways."""


class Batch(Struct):
    """Commands with the draft they made, its lines, and whose each line is."""

    draft: Draft
    commands: Sequence[Command]
    lines: list[bytes]
    owners: list[Command] = msgspec.field(default_factory=list[Command])
    plain: int = 0
    """Number of the commands that are plain appends, staged in runs."""
    sync: bool = False
    has_assistant: bool = False
    act: Act | None = None
    """The operation on the whole file that the one command of the batch does in place of an append."""

    @property
    def needs_disk(self) -> bool:
        """Return whether the batch has something to store, or to wait for."""
        return bool(self.lines or self.act or self.sync)

    def give_up(self) -> None:
        """Take the staging back, because nothing was stored: the commands are staged again."""
        self.draft.give_up()

    def follow(self) -> None:
        """Move the batch behind the lines that a foreign writer stored right before it."""
        after, by = self.draft.base_seq, self.draft.session.seq - self.draft.base_seq
        if by:
            self.draft.follow()
            for command in self.commands:
                command.come_later(after, by)

    def events(self) -> list[Event]:
        """Return the stored entries as events. Called after the commit."""
        draft = self.draft
        first = draft.seq - len(draft.rows) + 1
        wire = draft.codec.wire
        return [
            Event(first + index, row, wire(line), _origin(owner))
            for index, (row, line, owner) in enumerate(
                zip(draft.rows, self.lines, self.owners, strict=True)
            )
        ]


def stage(
    commands: Sequence[Command],
    opened: OpenSession,
    environment: Environment,
    stored: Mapping[int, bytes],
    leases: Leases,
) -> Batch:
    """Stage every command in order; each entry it adds is one line."""
    draft = Draft(
        opened.session,
        opened.dialect,
        new_id=environment.entry_ids(opened.dialect.rules),
        now=environment.now(),
        stored=stored,
    )
    draft.archived = opened.archived
    draft.unwritable = opened.unwritable
    if leases.is_shared:
        leases.refresh()
    draft.leases = leases if leases.held else None
    batch = Batch(draft, commands, draft.lines)
    at = 0
    while at < len(commands):
        at += _stage_run(batch, at) or _stage_one(batch, commands[at], dirty=opened.lacks_sync)
    batch.has_assistant = _ASSISTANT in map(_KIND, draft.rows)
    first = commands[0]
    batch.act = first.act if first.refusal is None else None
    return batch


def _stage_one(batch: Batch, command: Command, *, dirty: bool) -> Literal[1]:
    """Stage a command by itself; return how many were staged."""
    draft, owners = batch.draft, batch.owners
    if not command.asks:
        command.stage_on(draft)
        owners += [command] * (len(draft.rows) - len(owners))
        if command.sync and command.refusal is None and (draft.rows or dirty):
            # Also a duplicate, which adds nothing: what it answers has to be on the disk.
            command.rests_on_batch = batch.sync = True
    return 1


def _stage_run(batch: Batch, at: int) -> int:
    """Stage the plain appends to one head that begin at a place in line; return how many were.

    An append that does not fit the run ends the run and is staged by itself.
    """
    draft, commands = batch.draft, batch.commands
    first = commands[at]
    if not (isinstance(first, PlainAppend) and RUNS and draft.is_open):
        return 0
    run = [first]
    for place in range(at + 1, len(commands)):
        command = commands[place]
        if not isinstance(command, PlainAppend) or command.head != first.head:
            break
        run.append(command)
    try:
        count = draft.stage_run(first.head, [command.message for command in run])
    except HeadNotFound:
        return 0
    del run[count:]
    for offset, command in enumerate(run, len(draft.rows) - count):
        command.offset = offset
        command.refusal = None
        command.rests_on_batch = True
        batch.sync = batch.sync or command.sync
    batch.owners += run
    batch.plain += count
    return count


def _origin(command: Command) -> Origin:
    return Origin(command.ticket.client.client_id, command.ticket.origin_id)
