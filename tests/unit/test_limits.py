"""Bounds that follow from what the system gives the process."""

from __future__ import annotations

import pytest

from sessiond.limits import CONNECTIONS_MAX, CONNECTIONS_PER_PROCESS_MAX, Bounds


@pytest.mark.parametrize(
    ("open_files", "all_of_them", "of_one_process"),
    [
        (None, CONNECTIONS_MAX, CONNECTIONS_PER_PROCESS_MAX),
        (65_536, CONNECTIONS_MAX, CONNECTIONS_PER_PROCESS_MAX),
        (1024, 512, 256),
        (64, 32, 16),
        (2, 1, 1),
    ],
)
def test_connections_have_at_most_half_of_the_descriptors(
    open_files: int | None, all_of_them: int, of_one_process: int
) -> None:
    bounds = Bounds(open_files=open_files)
    assert bounds.connections_at_most == all_of_them
    assert bounds.connections_of_one_process == of_one_process


def test_a_share_that_the_user_set_holds_where_there_are_descriptors_enough() -> None:
    bounds = Bounds(connections=100, connections_per_process=90, open_files=1024)
    assert bounds.connections_of_one_process == 90
