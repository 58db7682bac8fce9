"""Two minutes of torture: at least one whole round, with kills from its first seconds."""

from __future__ import annotations

import pytest

from tests.torture.run import main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_two_minutes_of_torture_find_nothing(home: object) -> None:
    assert main(["--minutes", "2"]) == 0
