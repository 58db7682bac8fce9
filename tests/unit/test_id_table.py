"""The table of ids: any id is found again, as exactly the text that came, in few bytes."""

from __future__ import annotations

import sys
import tracemalloc
from uuid import UUID

import pytest

from sessiond.dialects.agents.tables.ids import IdTable

SPREAD = 0x9E3779B97F4A7C15F39CC0605CEDC835
"""A factor that gives numbers in a row bits that have nothing in common."""

UUID_TEXT = "5e55a1d0-0000-4000-8000-00000000000a"


def test_an_id_has_the_number_in_the_order_of_ids() -> None:
    table = IdTable()
    assert [table.add(name) for name in ("a", UUID_TEXT, "b")] == [1, 2, 3]
    assert [table.last(name) for name in ("b", UUID_TEXT, "a", "c")] == [3, 2, 1, 0]
    assert UUID_TEXT in table
    assert "c" not in table
    assert [table.name_of(number) for number in range(4)] == ["", "a", UUID_TEXT, "b"]


def test_an_id_that_comes_again_has_its_last_number() -> None:
    table = IdTable()
    for name in ("a", "b", "a"):
        table.add(name)
    assert table.last("a") == 3
    assert table.name_of(1) == table.name_of(3) == "a"


@pytest.mark.parametrize(
    "odd",
    [
        UUID_TEXT.upper(),
        UUID_TEXT.replace("-", "_"),
        UUID_TEXT.replace("-", "") + "    ",
        "5e55a1d00-000-4000-8000-00000000000a",
        "\ud83d",
        "",
        "é" * 36,
    ],
)
def test_an_id_that_is_nearly_a_uuid_is_another_id(odd: str) -> None:
    table = IdTable()
    table.add(UUID_TEXT)
    assert table.last(odd) == 0
    assert table.add(odd) == 2
    assert table.last(UUID_TEXT) == 1
    assert table.name_of(2) == odd


def test_another_name_can_be_told_of_an_id() -> None:
    table = IdTable()
    table.add(UUID_TEXT, "line-1")
    assert table.name_of(1) == "line-1"
    assert table.last(UUID_TEXT) == 1
    assert table.last("line-1") == 0


def test_all_of_many_ids_are_found_in_some_thirty_bytes_each() -> None:
    names = [str(UUID(int=number * SPREAD % 2**128)) for number in range(1, 20_001)]
    tracemalloc.start()
    try:
        table = IdTable()
        for name in names:
            table.add(name)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert [table.last(name) for name in names] == list(range(1, 20_001))
    assert [table.name_of(number) for number in (1, 777, 20_000)] == [
        names[0],
        names[776],
        names[-1],
    ]
    assert table.last(str(UUID(int=20_001 * SPREAD % 2**128))) == 0
    # The text of an id alone takes more, in any version of Python.
    assert used / len(names) < 45 < sys.getsizeof(names[0])


def test_a_table_without_names_knows_numbers_alone() -> None:
    table = IdTable(keeps_names=False)
    table.add("msg_1")
    assert table.last("msg_1") == 1
    assert table.last("msg_2") == 0
