"""A random walk over all methods: most steps make sense, some have one fault.

Law: a refused step changes no file. A result fits its schema. Parameters that the schema forbids
are refused. The seed decides the parameters, which contain values of earlier answers.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.fuzz.params import METHODS, fits, mutated_params, params_for, result_faults
from tests.fuzz.plain import Answer, Plain
from tests.fuzz.pools import Pools

__all__ = ["walk"]

_SAMPLES: Final = Path(__file__).parent.parent / "samples"
_FOLDERS: Final = ("sessions", "pending", "archive", "trash")
_MUTATED: Final = 0.35
# Methods that take what is no object for no parameters: protocol.md, "Messages".
_TAKE_ANYTHING: Final = frozenset({"initialize", "initialized"})
# These methods are chosen often, so that the other methods have something to work on.
_MAKING: Final = ("session/append", "session/append", "session/create", "session/branch")
# This method closes an unused session, which may cut the session's file.
_MAY_WRITE: Final = ("session/close",)


def walk(socket: Path, profile: Path, folder: Path, seed: int, steps: int) -> Iterator[str]:
    """Take `steps` steps on one connection; yield the faults."""
    dice = random.Random(seed)
    _prepare(folder)
    pools = Pools(folder)
    with Plain(socket) as client:
        before = look(profile)
        for step in range(steps):
            method = dice.choice(METHODS if dice.random() < 0.6 else _MAKING)
            params = params_for(method, pools, dice)
            if dice.random() < _MUTATED:
                params = mutated_params(params, dice)
            params = _without_endings(method, params)
            answer = client.call_with(method, params)
            after = look(profile)
            where = f"seed {seed}, step {step}: {method} {json.dumps(params)[:400]}"
            if answer.error is None:
                pools.learn(answer.result)
                found = list(_result_faults(method, params, answer.result))
            else:
                found = list(_refusal_faults(method, answer, before, after))
                if fits(method, params) and answer.error["message"].startswith("Expected `int`"):
                    found.append("the schema has an integer there, and it was refused as none")
            yield from (f"{where}: {fault}" for fault in (*found, *client.faults))
            client.faults.clear()
            before = after


def _prepare(folder: Path) -> None:
    """Make the files, and the things that are no regular files, that a path may lead to."""
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "folder").mkdir()
    (folder / "empty").touch()
    (folder / "garbage").write_bytes(b"\xff\0\n")
    shutil.copy(_SAMPLES / "pi" / "pi.jsonl", folder)
    shutil.copy(_SAMPLES / "native" / "every-type.jsonl", folder)


def _without_endings(method: str, params: Any) -> Any:
    """Return parameters that neither end the walk's access nor wait long for another client."""
    if isinstance(params, dict):
        if method == "initialize":
            params.pop("access", None)
        if isinstance(params.get("wait_ms"), int | float):
            params["wait_ms"] = min(params["wait_ms"], 1)
    return params


def look(profile: Path) -> dict[Path, bytes]:
    """Every byte of every session, wherever it lies."""
    paths = (path for name in _FOLDERS for path in (profile / name).iterdir())
    return {path: path.read_bytes() for path in paths}


def _result_faults(method: str, params: Any, result: Any) -> Iterator[str]:
    yield from result_faults(method, result)
    is_object = isinstance(params, dict) or method not in _TAKE_ANYTHING
    if is_object and not fits(method, params):
        yield "the schema forbids it, and it was done"


def _refusal_faults(
    method: str, answer: Answer, before: dict[Path, bytes], after: dict[Path, bytes]
) -> Iterator[str]:
    if before != after and method not in _MAY_WRITE:
        changed = {path for path in before | after if before.get(path) != after.get(path)}
        yield f"it was refused ({answer.kind}) and changed {sorted(changed)}"
