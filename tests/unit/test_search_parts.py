"""The parts of `make search`: each draws from the tests that it is about."""

from __future__ import annotations

import re

from tests.search import FAST, ROOT, _files


def test_a_part_of_few_tests_runs_only_files_that_have_them() -> None:
    drawn = _files("drawn")
    assert drawn == [
        name
        for name in _files(FAST)
        if re.search(r"pytest\.mark\.drawn", (ROOT / name).read_text())
    ]
    assert 5 < len(drawn) < len(_files(FAST)) / 10
