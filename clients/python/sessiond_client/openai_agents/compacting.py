"""CompactingSession: the compaction of the OpenAI Agents SDK in one atomic step.

The SDK's own wrapper clears a session and adds what OpenAI's API made of it: a program that is killed
in between leaves an empty session. Here one compaction entry replaces the context, or nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from agents.memory.openai_responses_compaction_session import select_compaction_candidate_items
from agents.memory.session import OpenAIResponsesCompactionArgs
from openai import AsyncOpenAI

from sessiond_client.errors import RpcError
from sessiond_client.openai_agents.branches import BranchingSession

__all__ = ["CompactingSession"]

_CANDIDATES: Final = 10


class CompactingSession(BranchingSession):
    """A session that the runner compacts through OpenAI's `responses.compact`.

    `should_compact` decides by the items that a compaction may replace; by default ten are enough.
    Only the stored items are sent: the SDK's mode "previous_response_id" is refused.
    """

    def __init__(
        self,
        session_id: str,
        *,
        model: str = "gpt-4.1",
        openai: AsyncOpenAI | None = None,
        should_compact: Callable[[list[Any]], bool] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(session_id, **options)
        self._model = model
        self._openai = openai
        self._should_compact = should_compact or _are_enough

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Have the items compacted if they are enough, or `force` says so.

        If another client moved the head meanwhile, nothing is compacted; the next turn asks again.
        """
        asked = args or {}
        if asked.get("compaction_mode") == "previous_response_id":
            raise ValueError(
                "only stored items are compacted: use compaction_mode 'input' or 'auto'"
            )
        client = await self._made()
        leaf_id = await self._leaf(client)
        items = await self.get_items(None)
        candidates = select_compaction_candidate_items(items)
        if leaf_id is None or not (asked.get("force") or self._should_compact(candidates)):
            return
        api = self._openai or AsyncOpenAI()
        compacted = await api.responses.compact(model=self._model, input=cast("Any", items))
        output = [item.model_dump(exclude_unset=True) for item in compacted.output or []]
        try:
            await self._replace(client, output, leaf_id)
        except RpcError as error:
            if error.kind != "precondition_failed":
                raise


def _are_enough(candidates: list[Any]) -> bool:
    return len(candidates) >= _CANDIDATES
