"""A minute of torture: at least one whole round, with kills from its first seconds."""

from __future__ import annotations

import pytest

from tests.torture.run import main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.search]


def test_a_minute_of_torture_finds_nothing(home: object) -> None:
    assert main(["--minutes", "1"]) == 0
