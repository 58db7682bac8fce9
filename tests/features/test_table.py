"""Every feature has its row, what carries the feature exists, and so does each test."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sessiond.methods import METHODS
from sessiond.model.events import NOTIFICATIONS
from sessiond.model.requests import CLIENT_REQUESTS
from tests.features.table import PAGE, Feature, deviations, features, names_in, page

FEATURES = list(features())
COUNT = 177
# More would make a row of the page hard to read.
TESTS_MAX = 4
# Features that are not built yet, and why not: their rows name no method and no test.
NOT_BUILT: dict[str, str] = {}
OPEN = {number for numbers in NOT_BUILT.values() for number in numbers.split()}
CARRIERS = {method.name for method in METHODS} | {*NOTIFICATIONS, *CLIENT_REQUESTS}
CARRIERS |= {"$/cancelRequest"}


def test_every_number_stands_there_once() -> None:
    numbers = [row.number for row in FEATURES if not row.number.startswith("D")]
    assert numbers == [str(number) for number in range(1, COUNT + 1)]
    defects = [row.number for row in FEATURES if row.number.startswith("D")]
    assert sorted(set(defects)) == sorted([*(f"D{number}" for number in range(1, 25)), "D4b"])
    assert len(defects) == len(set(defects))


def test_a_row_names_what_carries_the_feature_and_tests_that_exist() -> None:
    assert [complaint for row in FEATURES for complaint in complaints(row)] == []


def test_a_deviation_names_its_rows_its_programs_and_its_reason() -> None:
    numbers = {row.number for row in FEATURES}
    programs = {"pi", "Operator", "piglet", "Nova", "Construct", "sharur"}
    found = deviations()
    for one in found:
        assert set(one.numbers.split(", ")) <= numbers, one
        assert set(one.program.split(", ")) <= programs, one
        assert all(one), one
    order = [int(one.numbers.partition(",")[0]) for one in found]
    assert order == sorted(order)


def complaints(row: Feature) -> Iterator[str]:
    """Yield what is wrong with a row."""
    if row.number in OPEN:
        if row.carriers or row.tests:
            yield f"{row.number}: leave the number out of NOT_BUILT, the feature is built"
        return
    if not row.carriers or not row.tests:
        yield f"{row.number}: name what carries the feature and a test that fails without it"
    if len(row.tests) > TESTS_MAX:
        yield f"{row.number}: name at most {TESTS_MAX} tests"
    for name in row.carriers:
        if name not in CARRIERS:
            yield f"{row.number}: the protocol has no {name}"
    for test in row.tests:
        file, _, name = test.partition("::")
        if name not in names_in(file):
            yield f"{row.number}: there is no test {test}"


def test_the_page_is_that_of_the_rows() -> None:
    made = page()
    if os.environ.get("UPDATE") == "1":
        PAGE.write_text(made)
    assert PAGE.read_text() == made, (
        "write the page again: UPDATE=1 .venv/bin/pytest tests/features"
    )
