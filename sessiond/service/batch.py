"""One batch of commands: staged together, stored together, settled together.

Staging never touches the session. An outcome that rests on staged entries, a
duplicate or a refusal among them, stands only if those become durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from sessiond.errors import SessiondError
from sessiond.model.entries import Kind
from sessiond.service.events import Event, Origin
from sessiond.service.inbox import Command
from sessiond.service.opened import Opened
from sessiond.service.ports import Environment
from sessiond.session.draft import Draft

__all__ = ["Batch", "Outcome", "stage"]


class Outcome(Struct):
    """What staging made of one command: a receipt or a refusal."""

    command: Command
    receipt: Any
    refusal: SessiondError | None
    rests_on_batch: bool

    def settle(self, error: SessiondError | None, durability: str) -> None:
        """Answer the command, `error` being what storing the batch came to."""
        if error is not None and self.rests_on_batch:
            self.command.ticket.fail(error)
        elif self.refusal is not None:
            self.command.ticket.fail(self.refusal)
        else:
            self.command.settle(self.receipt, durability)


class Batch(Struct):
    """Commands with the draft they made, its lines, and who asked for each line."""

    draft: Draft
    outcomes: list[Outcome]
    lines: list[bytes]
    origins: list[Origin]
    sync: bool
    has_assistant: bool

    def events(self) -> list[Event]:
        """The stored entries as events. Called after the commit."""
        draft = self.draft
        first = draft.seq - len(draft.rows) + 1
        wire = draft.codec.wire
        return [
            Event(first + index, row, wire(line), origin)
            for index, (row, line, origin) in enumerate(
                zip(draft.rows, self.lines, self.origins, strict=True)
            )
        ]


def stage(
    commands: Sequence[Command],
    opened: Opened,
    environment: Environment,
    stored: Mapping[int, bytes],
) -> Batch:
    """Stage every command in order and encode what they add, one line an entry."""
    draft = Draft(
        opened.session,
        opened.dialect,
        new_id=environment.new_entry_id,
        now=environment.now(),
        stored=stored,
    )
    outcomes: list[Outcome] = []
    origins: list[Origin] = []
    sync = False
    for command in commands:
        outcomes.append(_stage_one(draft, command))
        count = len(draft.entries) - len(origins)
        if count:
            ticket = command.ticket
            origins += [Origin(ticket.client.client_id, ticket.request_id)] * count
            sync = sync or command.sync
    lines = [opened.dialect.encode(entry) for entry in draft.entries]
    has_assistant = any(row.kind == Kind.ASSISTANT for row in draft.rows)
    return Batch(draft, outcomes, lines, origins, sync, has_assistant)


def _stage_one(draft: Draft, command: Command) -> Outcome:
    receipt: Any = None
    refusal: SessiondError | None = None
    if command.stage is not None:
        try:
            receipt = command.stage(draft)
        except SessiondError as error:
            refusal = error
    rests = command.stage is not None and bool(draft.entries)
    return Outcome(command, receipt, refusal, rests)
