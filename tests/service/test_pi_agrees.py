"""Comparison of pi's own code and the daemon on random sessions.

SESSIOND_PI_CASES=4000 SESSIOND_PI_SEED=7 pytest tests/service/test_pi_agrees.py
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.kit.house import House
from tests.kit.pi import node_and_pi
from tests.service.as_pi import ASKED, Json, cuts_nothing_away
from tests.service.pi_sessions import FUNCTIONS, as_json, drawn

pytestmark = [pytest.mark.slow, pytest.mark.search]
CASES = int(os.environ.get("SESSIOND_PI_CASES", "150"))
SEED = int(os.environ.get("SESSIOND_PI_SEED", "0"))
DRIVER = Path(__file__).with_name("pi_answers.mjs")


@pytest.fixture(scope="module")
def pi(absent: Callable[[str], NoReturn]) -> Iterator[Callable[[str], Json]]:
    """Asks pi's functions in a node process."""
    node, manager = node_and_pi(absent)
    command = [node, DRIVER, manager.parents[1]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        tasks, answers = process.stdin, process.stdout
        assert tasks is not None
        assert answers is not None

        def ask(task: str) -> Json:
            tasks.write(task.encode() + b"\n")
            tasks.flush()
            line = answers.readline()
            assert line, f"pi has no answer to {task}"
            return json.loads(line)

        yield ask
        tasks.close()


def as_javascript_has_it(value: Any) -> Any:
    """Numbers as JavaScript reads them, half a character as text has it."""
    match value:
        case dict():
            return {name: as_javascript_has_it(member) for name, member in value.items()}
        case list():
            return [as_javascript_has_it(item) for item in value]
        case bool() | None:
            return value
        case int() | float():
            number = float(value)
            return number + 0.0 if math.isfinite(number) else None
        case _:
            return value


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("function", FUNCTIONS)
async def test_the_daemon_answers_as_pi_does(
    house: House, pi: Callable[[str], Json], function: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for seed in range(SEED, SEED + CASES):
            given = drawn(function, seed)
            task = as_json({"function": function, "input": given})
            expected = pi(task)
            found = await ASKED[function](wire, given)
            if function == "findCutPoint" and found is None:
                assert cuts_nothing_away(given, expected), seed
            else:
                assert as_javascript_has_it(found) == as_javascript_has_it(expected), seed
