"""The usual append: one message for a head, under no condition.

Law: a plain append may be staged in a run with its neighbours in line, or by itself as any other
append is. The line, the index, the answer and the refusal are the same both ways.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Raw

from sessiond.model.entries import Message
from sessiond.model.ids import MAIN
from sessiond.service.actor.inbox import Command
from sessiond.session.append import append
from sessiond.session.append_request import AppendRequest
from sessiond.session.draft import Draft


class PlainAppend(Command, eq=False):
    """A message without id, key, parent, expectation and lease that waits to be stored."""

    is_plain: ClassVar[bool] = True

    session_id: str = ""
    message: Raw = Raw()
    head: str = MAIN

    def receipt_on(self, draft: Draft) -> Any:
        """Stage the message as any other append is staged."""
        entry = Message(message=self.message)
        return append(draft, AppendRequest(self.session_id, [entry], head=self.head))
