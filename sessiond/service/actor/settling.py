"""Answering a batch: the last of the writer's six steps.

Law: every command of the batch is settled, in the order of the line. Answers to plain appends
that follow each other go to their connections in one piece each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sessiond.errors import SessiondError
from sessiond.service.actor.batch import Batch
from sessiond.service.ports import Partner
from sessiond.session.receipts import receipts_of_run


def settle(
    batch: Batch,
    error: SessiondError | None,
    durability: str,
    report_bug: Callable[[str, BaseException], str],
) -> None:
    """Answer every command of a batch; `error` is what storing the batch came to."""
    plain = [command.offset for command in batch.commands if command.offset >= 0]
    receipts = iter(receipts_of_run(batch.draft, plain, durability) if error is None else ())
    waiting: dict[Partner, tuple[list[Any], list[bytes]]] = {}
    for command in batch.commands:
        if command.offset >= 0 and error is None:
            command.settled = True
            command.end_waiting()
            listener = command.ticket.client.listener
            tickets, results = waiting.setdefault(listener, ([], []))
            tickets.append(command.ticket)
            results.append(next(receipts))
        elif not command.settled:
            _answer(waiting)
            command.settle(error, durability, report_bug)
    _answer(waiting)


def _answer(waiting: dict[Partner, tuple[list[Any], list[bytes]]]) -> None:
    """Queue the answers that were gathered."""
    for listener, (tickets, results) in waiting.items():
        listener.answer_all(tickets, results)
    waiting.clear()
