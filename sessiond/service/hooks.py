"""Clients that want a word before a compaction, a fork or a branch: a veto, or a summary of theirs.

Law 1: where no client offered a hook nobody is asked and nothing waits.
Law 2: all who offered it are asked at the same time, for HOOK_SECONDS at most. Who is silent, wrong
or gone has nothing against it. Any veto wins, at once; of summaries the first to arrive.
"""

from __future__ import annotations

from typing import Final

import anyio
import msgspec
from msgspec import Struct

from sessiond.errors import Vetoed
from sessiond.limits import HOOK_SECONDS, SUMMARY_BYTES_MAX, VETO_REASON_CHARS_MAX
from sessiond.model.requests import HOOKS, Hook, HookAnswer, Reply
from sessiond.service.client_request import ask_client
from sessiond.service.ports import Consulted

__all__ = ["Hooks"]

_decode: Final = msgspec.json.Decoder(HookAnswer).decode
_encode: Final = msgspec.json.Encoder().encode
_NOTHING: Final = HookAnswer()


class Hooks:
    """Who offered what."""

    def __init__(self) -> None:
        self._offering: dict[Hook, dict[Consulted, None]] = {hook: {} for hook in HOOKS}

    def offer(self, client: Consulted, hooks: frozenset[Hook]) -> None:
        """From now on a client is asked before these, and no others."""
        for hook, clients in self._offering.items():
            clients.pop(client, None)
            if hook in hooks:
                clients[client] = None

    def wanted(self, hook: Hook) -> bool:
        """Whether anybody is to be asked."""
        return bool(self._offering[hook])

    async def before(self, hook: Hook, about: Struct) -> str | None:
        """Ask everybody; gives the first summary that was supplied. Raises Vetoed."""
        params = _encode(about)
        summaries: list[str] = []
        vetoes: list[Vetoed] = []

        async def ask(client: Consulted) -> None:
            reply = await ask_client(client.listener, f"client/{hook}", params, HOOK_SECONDS)
            answer = _answer_in(reply)
            if answer.veto is not None:
                vetoes.append(_vetoed(client, answer.veto))
                # What the others say makes no difference any more, and they are told so.
                tasks.cancel_scope.cancel()
            elif _is_summary(answer.summary):
                summaries.append(answer.summary)

        async with anyio.create_task_group() as tasks:
            for client in list(self._offering[hook]):
                tasks.start_soon(ask, client)
        if vetoes:
            raise vetoes[0]
        return summaries[0] if summaries else None


def _answer_in(reply: Reply) -> HookAnswer:
    if reply.result is None:
        return _NOTHING
    try:
        return _decode(reply.result)
    except (msgspec.DecodeError, RecursionError):
        return _NOTHING


def _is_summary(text: str) -> bool:
    return bool(text.strip()) and len(text.encode(errors="replace")) <= SUMMARY_BYTES_MAX


def _vetoed(client: Consulted, reason: str) -> Vetoed:
    return Vetoed(
        "a client that has a say in this does not want it; settle it there, or do something else",
        by=client.client_id or client.name,
        reason=reason[:VETO_REASON_CHARS_MAX],
    )
