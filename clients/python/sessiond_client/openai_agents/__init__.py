"""A session back end for the OpenAI Agents SDK: `pip install 'sessiond[openai-agents]'`.

from sessiond_client.openai_agents import SessiondSession

session = SessiondSession("support-4711")
await Runner.run(agent, "Hello", session=session)

session.py     the SDK's Session protocol on a head of a session
branches.py    branches as heads, and turns
compacting.py  the SDK's compaction, in one atomic step
reading.py     the items of a head: pages of its path, compactions
items.py       an item as an entry, and back
foreign.py     messages that other programs stored, as items
"""

from __future__ import annotations

from sessiond_client.openai_agents.branches import BranchingSession
from sessiond_client.openai_agents.compacting import CompactingSession
from sessiond_client.openai_agents.session import SessiondSession

__all__ = ["BranchingSession", "CompactingSession", "SessiondSession"]
