"""Lists, whole sessions, promotions, clean-ups and wake-ups on PostgreSQL, as on a database in memory."""

from __future__ import annotations

from typing import Final

import pytest

from tests.service import test_brought_back_on_one_database as brought_back
from tests.service import test_clean_up_on_one_database as clean_up
from tests.service import test_lists_on_one_database as lists
from tests.service import test_promotions_on_one_database as promotions
from tests.service import test_wake_ups_on_one_database as wake_ups
from tests.service import test_whole_sessions_on_one_database as whole_sessions

pytestmark = pytest.mark.slow

prompt_flushes = lists.prompt_flushes

# No test sets the clock of a server, and the threads of a daemon are not the server's.
_IN_MEMORY_ONLY: Final = {
    "test_retention_runs_once_an_hour_over_all_daemons",
    "test_a_dry_run_of_retention_names_no_session_that_is_open_at_another_daemon",
    "test_a_dry_run_of_retention_names_no_session_whose_time_it_could_not_read",
    "test_a_failed_retention_keeps_no_other_daemon_from_the_work",
    "test_a_thread_ends_that_is_told_to_as_it_begins_its_work",
}

globals().update(
    {
        name: test
        for tests in (brought_back, clean_up, lists, promotions, wake_ups, whole_sessions)
        for name, test in vars(tests).items()
        if name.startswith("test_") and name not in _IN_MEMORY_ONLY
    }
)
