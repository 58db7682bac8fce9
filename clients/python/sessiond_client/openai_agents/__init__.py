"""A session back end for the OpenAI Agents SDK: the extra `openai-agents`.

from sessiond_client.openai_agents import SessiondSession

session = SessiondSession("support-4711")
await Runner.run(agent, "Hello", session=session)

session.py     the SDK's Session protocol on a head of a session, and what its compaction asks for
branches.py    branches as heads, turns and their usage
turns.py       the entries of a turn: requests, tools, tokens
heads.py       a head: a view of its items, and changes that depend on the view
reading.py     the items of a head: pages of its path, compactions
items.py       an item as an entry, and back
foreign.py     messages that other programs stored, as items
"""

from __future__ import annotations

from sessiond_client.openai_agents.branches import BranchingSession
from sessiond_client.openai_agents.session import SessiondSession

__all__ = ["BranchingSession", "SessiondSession"]
