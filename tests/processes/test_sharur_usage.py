"""The usage that sharur's documentation and its service promise, walked from start to end.

The walk goes once through sharur's own files, in a folder of them, and once through a native file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.harness.daemon import Daemon
from tests.processes.harness.walk_stages import Stage, killed, walked
from tests.processes.usages import sharur_compactions as compactions
from tests.processes.usages import sharur_sessions as sessions
from tests.processes.usages import sharur_turns as turns
from tests.processes.usages.sharur import SHARUR

pytestmark = pytest.mark.slow

STAGES: tuple[Stage, ...] = (
    turns.a_session_is_new,
    turns.a_prompt_is_answered_by_an_agent,
    turns.a_turn_is_steered_followed_up_and_aborted,
    killed,
    turns.a_client_that_leaves_ends_its_turn,
    turns.states_follow_the_table,
    turns.events_are_replayed_and_sessions_are_apart,
    turns.the_session_is_configured,
    turns.state_and_messages_are_read,
    compactions.the_context_is_compacted_by_a_plan,
    compactions.a_client_writes_the_summary,
    sessions.a_branch_is_a_child_and_a_fork_is_none,
    sessions.messages_are_rebased,
    sessions.sessions_are_merged,
    sessions.the_tree_of_sessions_is_drawn,
    sessions.sessions_are_found_and_continued,
    sessions.a_session_is_exported_and_imported,
    sessions.a_session_is_deleted_and_restored,
)


@pytest.mark.parametrize("kind", ["sharur", "native"])
def test_the_usage_of_sharur(daemon: Daemon, tmp_path: Path, kind: str) -> None:
    is_native = kind == "native"
    stages = STAGES if is_native else (turns.sharurs_folder_is_a_root, *STAGES)
    walked(daemon, SHARUR, tmp_path / "sessions", stages, native=is_native)
