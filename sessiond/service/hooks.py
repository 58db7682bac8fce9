"""Hooks of clients before a compaction, a fork or a branch: a veto, or a summary or a label from the client.

Law 1: without a client that offered the hook no request is sent and no call waits.
Law 2: all clients that offered the hook are asked at once, for HOOK_SECONDS at most. A client that
is silent, wrong or gone has no objection. Any veto wins, at once; of summaries, and of labels, the
first to arrive.
"""

from __future__ import annotations

from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.errors import Vetoed
from sessiond.limits import HOOK_SECONDS, SUMMARY_BYTES_MAX, VETO_REASON_CHARS_MAX
from sessiond.model.requests import HOOKS, Hook, HookAnswer, Reply
from sessiond.service.client_request import ask_client
from sessiond.service.ports import Consulted

_encode: Final = msgspec.json.Encoder().encode
_NOTHING: Final = HookAnswer()


class Hooks:
    """Clients by the hooks that they offered."""

    def __init__(self) -> None:
        self._offering: dict[Hook, dict[Consulted, None]] = {hook: {} for hook in HOOKS}

    def offer(self, client: Consulted, hooks: frozenset[Hook]) -> None:
        """Ask a client before these hooks from now on, and before no other ones."""
        for hook, clients in self._offering.items():
            clients.pop(client, None)
            if hook in hooks:
                clients[client] = None

    def wanted(self, hook: Hook) -> bool:
        """Return whether a client offered the hook."""
        return bool(self._offering[hook])

    async def before(self, hook: Hook, about: Struct) -> HookAnswer:
        """Ask every client that offered the hook; return the first summary and label. Raise Vetoed."""
        params = _encode(about)
        summaries: list[str] = []
        labels: list[str] = []
        vetoes: list[Vetoed] = []

        async def ask(client: Consulted) -> None:
            reply = await ask_client(client.listener, f"client/{hook}", params, HOOK_SECONDS)
            answer = _answer_in(reply)
            if answer.veto is not None:
                vetoes.append(_vetoed(client, answer.veto))
                # Further answers make no difference: the remaining requests are cancelled.
                tasks.cancel_scope.cancel()
                return
            if _is_summary(answer.summary):
                summaries.append(answer.summary)
            if answer.label is not None and answer.label.strip():
                labels.append(answer.label)

        async with anyio.create_task_group() as tasks:
            for client in list(self._offering[hook]):
                tasks.start_soon(ask, client)
        if vetoes:
            raise vetoes[0]
        return HookAnswer(summary=next(iter(summaries), ""), label=next(iter(labels), None))


def _answer_in(reply: Reply) -> HookAnswer:
    """Return the members of an answer that are texts: members of another type hide no veto."""
    if reply.result is None:
        return _NOTHING
    try:
        members = typed.decode(reply.result, dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return _NOTHING
    names = HookAnswer.__struct_fields__
    return HookAnswer(**{n: members[n] for n in names if isinstance(members.get(n), str)})


def _is_summary(text: str) -> bool:
    return bool(text.strip()) and len(text.encode(errors="replace")) <= SUMMARY_BYTES_MAX


def _vetoed(client: Consulted, reason: str) -> Vetoed:
    return Vetoed(
        "a client that offered this hook vetoed the call: see its reason, or ask its user",
        by=client.client_id or client.name,
        reason=reason[:VETO_REASON_CHARS_MAX],
    )
