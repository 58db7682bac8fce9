"""The usage that piglet's documentation promises, walked from start to end.

The walk goes once through piglet's own files, in a folder of them, and once through a native file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.harness.daemon import Daemon
from tests.processes.harness.walk_stages import Stage, killed, walked
from tests.processes.usages import piglet_entries as entries
from tests.processes.usages import piglet_sessions as sessions
from tests.processes.usages.piglet import PIGLET

pytestmark = pytest.mark.slow

OF_ANY_FILE: tuple[Stage, ...] = (
    entries.a_session_begins_with_its_file,
    entries.every_kind_of_message_is_appended,
    entries.titles_and_models_are_written_last_wins,
    entries.entries_of_extensions_are_appended,
    entries.entries_are_labelled,
    entries.a_branch_is_left_and_the_tree_is_shown,
    killed,
    entries.the_leaf_is_reset_and_the_text_comes_back,
    sessions.calls_without_results_are_repaired,
    sessions.the_context_is_compacted_by_messages,
    sessions.a_context_is_forked_and_the_work_is_handed_off,
    sessions.sessions_are_found,
    sessions.older_files_are_read_and_brought_up_by_a_copy,
)
OF_ITS_OWN_FILES: tuple[Stage, ...] = (
    entries.piglets_folders_are_roots,
    *OF_ANY_FILE,
    sessions.a_plan_is_compacted,
    entries.piglet_works_beside,
)


@pytest.mark.parametrize("kind", ["piglet", "native"])
def test_the_usage_of_piglet(daemon: Daemon, tmp_path: Path, kind: str) -> None:
    stages = OF_ITS_OWN_FILES if kind == "piglet" else OF_ANY_FILE
    walked(daemon, PIGLET, tmp_path / "sessions", stages, native=kind == "native")
