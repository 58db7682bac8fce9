"""One batch of commands: staged together, stored together, settled together.

Staging never touches the session. What rests on staged entries, a duplicate or
a refusal among them, stands only if those become durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from sessiond.model.row import Kind
from sessiond.service.actor.inbox import Act, Command
from sessiond.service.actor.leases import Leases
from sessiond.service.environment import Environment
from sessiond.service.log.events import Event, Origin
from sessiond.service.log.open_session import OpenSession
from sessiond.session.draft import Draft

__all__ = ["Batch", "stage"]


class Batch(Struct):
    """Commands with the draft they made, its lines, and whose each line is."""

    draft: Draft
    commands: Sequence[Command]
    lines: list[bytes]
    owners: list[Command]
    sync: bool
    has_assistant: bool
    act: Act | None
    """What the one command of the batch does with the file and these lines instead of an append."""

    def give_up(self) -> None:
        """Nothing of it was stored: its commands are to be staged again."""
        self.draft.give_up()

    def follow(self) -> None:
        """Come behind the lines that others stored right before it."""
        after, by = self.draft.base_seq, self.draft.session.seq - self.draft.base_seq
        if by:
            self.draft.follow()
            for command in self.commands:
                command.come_later(after, by)

    def events(self) -> list[Event]:
        """The stored entries as events. Called after the commit."""
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
    """Stage every command in order and encode what they add, one line an entry."""
    draft = Draft(
        opened.session,
        opened.dialect,
        new_id=environment.new_entry_id,
        now=environment.now(),
        stored=stored,
    )
    draft.archived = opened.archived
    draft.leases = leases if leases.held else None
    owners: list[Command] = []
    sync = False
    for command in commands:
        if command.stage is None:
            continue
        command.stage_on(draft)
        owners += [command] * (len(draft.entries) - len(owners))
        if command.sync and command.refusal is None and (draft.entries or opened.dirty):
            # Also a duplicate, which adds nothing: what it answers has to be on the disk.
            command.rests_on_batch = sync = True
    lines = [*map(opened.dialect.encode, draft.entries)]
    has_assistant = any(row.kind == Kind.ASSISTANT for row in draft.rows)
    first = commands[0]
    act = first.act if first.refusal is None else None
    return Batch(draft, commands, lines, owners, sync, has_assistant, act)


def _origin(command: Command) -> Origin:
    return Origin(command.ticket.client.client_id, command.ticket.origin_id)
