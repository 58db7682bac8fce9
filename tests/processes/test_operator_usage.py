"""The usage that Operator's documentation promises, walked from start to end.

The walk goes once through Operator's own files, in a folder of them, and once through a native file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.harness.daemon import Daemon
from tests.processes.harness.walk_stages import killed, restarted, walked
from tests.processes.usages import operator_entries as entries
from tests.processes.usages import operator_sessions as sessions
from tests.processes.usages.operator import OPERATOR

pytestmark = pytest.mark.slow

STAGES = (
    entries.a_session_begins_and_its_file_appears_with_the_first_answer,
    entries.every_kind_of_message_is_appended,
    entries.settings_and_entries_of_extensions_are_appended,
    entries.entries_are_labelled,
    entries.the_tree_is_walked,
    entries.a_branch_is_left_with_a_summary,
    killed,
    sessions.a_handler_vetoes_a_branch_and_supplies_a_summary,
    entries.an_attempt_is_rewound_and_the_leaf_is_reset,
    entries.the_context_is_compacted,
    sessions.a_handler_is_asked_before_a_compaction,
    sessions.sessions_are_forked,
    sessions.a_session_in_memory_is_promoted,
    restarted,
    sessions.the_latest_conversation_is_continued,
    sessions.a_session_is_exported_and_imported,
    sessions.a_turn_is_aborted_and_all_is_saved,
    sessions.damage_is_tolerated_and_reported,
    sessions.sessions_are_archived_and_deleted,
)


@pytest.mark.parametrize("kind", ["operator", "native"])
def test_the_usage_of_operator(daemon: Daemon, tmp_path: Path, kind: str) -> None:
    is_native = kind == "native"
    stages = STAGES if is_native else (entries.operators_folders_are_roots, *STAGES)
    walked(daemon, OPERATOR, tmp_path / "sessions", stages, native=is_native)
