"""Two daemons on PostgreSQL pass the tests of two daemons on a database in memory."""

from __future__ import annotations

from typing import Final

import pytest

from tests.service import test_awkward_content_on_one_database as content
from tests.service import test_bad_rows_on_one_database as bad_rows
from tests.service import test_clocks_on_one_database as clocks
from tests.service import test_compactions_on_one_database as compactions
from tests.service import test_cut_connections_on_one_database as cut_connections
from tests.service import test_daemons_on_one_database as daemons
from tests.service import test_leases_on_one_database as leases
from tests.service import test_lost_calls_on_one_database as lost_calls
from tests.service import test_presence_on_one_database as presence
from tests.service import test_queues_on_one_database as queues
from tests.service import test_races_on_one_database as races
from tests.service import test_reads_while_away as away
from tests.service import test_repairs_on_one_database as repairs
from tests.service import test_rows_changed_by_hand as by_hand
from tests.service import test_signals_on_one_database as signals
from tests.service import test_states_on_one_database as states

pytestmark = pytest.mark.slow

look_often = compactions.look_often

_IN_MEMORY_ONLY: Final = {
    # It moves the daemon's copy of the clock by the number of its questions: on a server, polls ask too.
    "test_a_value_that_ends_behind_the_look_of_a_read_ends_for_the_next_one",
    # No server's clock is set here.
    "test_a_clock_of_the_database_that_was_set_is_seen_after_a_while",
}

globals().update(
    {
        name: test
        for tests in (
            away,
            bad_rows,
            by_hand,
            clocks,
            compactions,
            content,
            cut_connections,
            daemons,
            leases,
            lost_calls,
            presence,
            queues,
            races,
            repairs,
            signals,
            states,
        )
        for name, test in vars(tests).items()
        if name.startswith("test_") and name not in _IN_MEMORY_ONLY
    }
)
