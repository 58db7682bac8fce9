"""Odd parameters: for any legal JSON the answer is a result or a refusal, never a bug."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.methods import METHODS
from sessiond.schema import FORMATS
from sessiond.testing.daemon import Refusal, running_daemon
from sessiond.testing.wire import Wire
from tests.kit.calls import create, say

DOCUMENT: dict[str, Any] = json.loads(FORMATS["openrpc"]())
BY_NAME = {method["name"]: method for method in DOCUMENT["methods"]}
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
SESSION = "my-session"
ROUNDS = 12
# They end the connection or the daemon.
ENDING = {"exit", "server/stop"}
TEXTS = [
    *(
        "",
        " ",
        "\0",
        "a\nb",
        "\u2028",
        "\U0001f9e0",
        "e1",
        "main",
        SESSION,
        "x" * 2000,
        "/",
        "../..",
    ),
    *(
        "2026-01-15T10:30:00.000Z",
        "9999-12-31T23:59:60Z",
        "%s%n",
        "*",
        "[",
        "'; --",
        "\ufeff",
        "-1",
    ),
]
NUMBERS = [0, -1, 1, 2, 2**31, 2**53, 2**63, 2**64, 10**30, 0.5, -1e300]
OTHERS: list[Any] = [
    None,
    True,
    False,
    [],
    {},
    [[]],
    {"": None},
    {"role": "user"},
    {"type": "message"},
]

OF_TYPE: dict[Any, list[Any]] = {
    "string": TEXTS,
    "integer": NUMBERS,
    "number": NUMBERS,
    "boolean": [True, False],
    "null": [None],
}


def odd_values(schema: dict[str, Any], dice: random.Random) -> Any:
    """Draw a value that mostly has the wanted type but seldom makes sense."""
    if "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    if dice.random() < 0.05:
        return dice.choice([*TEXTS, *NUMBERS, *OTHERS])
    if "anyOf" in schema:
        return odd_values(dice.choice(schema["anyOf"]), dice)
    if "enum" in schema:
        return dice.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items", {})
        parts = items if isinstance(items, list) else [items] * dice.randrange(4)
        return [odd_values(part, dice) for part in parts]
    if kind == "object":
        return {
            name: odd_values(part, dice)
            for name, part in schema.get("properties", {}).items()
            if name in schema.get("required", ()) or dice.random() < 0.4
        }
    return dice.choice(OF_TYPE.get(kind, [*TEXTS, *NUMBERS, *OTHERS]))


def odd_params(name: str, dice: random.Random) -> Iterator[dict[str, Any]]:
    for _ in range(ROUNDS):
        params = {
            param["name"]: odd_values(param["schema"], dice)
            for param in BY_NAME[name]["params"]
            if param["required"] or dice.random() < 0.4
        }
        if "session_id" in params and dice.random() < 0.8:
            params["session_id"] = SESSION
        # Files are written where a path says so: only into this test's own folder.
        if isinstance(params.get("path"), str) and params["path"].startswith("/"):
            params["path"] = "relative"
        yield params


async def make(wire: Wire) -> None:
    """Make the session again, after any change that earlier methods made to it."""
    await ask(wire, "session/unarchive", {"session_id": SESSION})
    await create(wire, if_exists="open")
    await ask(
        wire,
        "append",
        {"session_id": SESSION, "entry": {"type": "custom", "id": "e1", "custom_type": "x"}},
    )
    await say(wire, role="assistant")


async def ask(wire: Wire, name: str, params: dict[str, Any]) -> None:
    kind = "none"
    try:
        await wire.call(name, **params)
    except Refusal as refused:
        kind = refused.data["kind"]
    assert kind != "internal", (name, params)


@pytest.mark.parametrize(
    "seed", [0, 1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
async def test_no_legal_json_in_a_parameter_is_a_bug(home: Path, seed: int) -> None:
    dice = random.Random(seed)
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        for method in dice.sample(METHODS, len(METHODS)):
            if method.name in ENDING:
                continue
            await make(wire)
            for params in odd_params(method.name, dice):
                if method.name == "initialize":
                    # What a connection gives up of its access stays given up.
                    async with daemon.connect() as other:
                        await ask(other, method.name, params)
                else:
                    await ask(wire, method.name, params)
        assert daemon.bugs == []
