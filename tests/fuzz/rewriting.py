"""A foreign writer that rewrites a session's file in place, again and again, while readers read.

Law: an answer has the lines that the file had at some moment, or is a storage_error that asks for a
retry. Once the foreign writer stops, an answer has the current lines.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from tests.fuzz.plain import Answer, Plain

__all__ = ["rewritten"]

_ENTRIES: Final = 6
_QUESTIONS: Final = 40
_READERS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("session/entries", {}),
    ("session/path", {}),
    ("session/entries", {"after_seq": 2, "limit": 2}),
    ("session/entry", {"entry_id": "said-2"}),
    ("session/tree", {}),
    ("session/turns", {}),
    ("session/build_context", {}),
    ("session/plan_compaction", {"keep_recent_tokens": 10}),
    ("session/plan_branch_summary", {"entry_id": None}),
    ("session/fork", {"dry_run": True, "new_session_id": "fork-of-what-is-saved"}),
    ("session/export", {}),
    ("session/usage", {}),
)


def rewritten(client: Plain, seed: int) -> Iterator[str]:
    """Let a foreign writer save an open session while it is read; yield the faults."""
    session_id, dice = f"saved-{seed:08}", random.Random(seed)
    made = client.call("session/create", cwd="/p", session_id=session_id, persist="immediate")
    path = Path(made.result["session"]["path"])
    # All lines differ in length, so a line in the place of another line is noticed.
    for number, size in enumerate(dice.sample(range(30, 90), _ENTRIES)):
        role = "assistant" if number % 2 else "user"
        message = {"role": role, "content": "x" * size, "timestamp": 1}
        entry = {"type": "message", "id": f"said-{number}", "message": message}
        client.call("session/append", session_id=session_id, entry=entry)
    one = path.read_bytes()
    # A save keeps the size of the file and the place of its last line.
    versions = [one, _turned(one, dice.randrange(1, _ENTRIES - 1)), _turned(one, 1)]
    with _saving(path, versions):
        for _ in range(_QUESTIONS):
            method, params = dice.choice(_READERS)
            answer = client.call(method, session_id=session_id, **params)
            yield from _faults(method, answer, params.get("entry_id"))
    last = [entry["id"] for entry in _entries(path.read_bytes())]
    for entry_id in last:
        answer = client.call("session/entry", session_id=session_id, entry_id=entry_id)
        if answer.error is not None:
            # The file is looked at again, and then the question is answered.
            answer = client.call("session/entry", session_id=session_id, entry_id=entry_id)
        if answer.error is not None or answer.result["entry"]["id"] != entry_id:
            yield f"an entry of a file that was saved in place came to {answer!r}"
    page = client.call("session/entries", session_id=session_id)
    if page.error is not None or _served(page) != [*enumerate(last, 1)]:
        yield f"{last} were saved last, and what is served is {page!r}"
    client.call("session/delete", session_id=session_id)


def _faults(method: str, answer: Answer, entry_id: str | None) -> Iterator[str]:
    if answer.error is not None:
        if answer.kind != "storage_error":
            yield f"{method} of a file that is saved in place came to {answer!r}"
    elif entry_id not in {None, answer.result.get("entry", {"id": None})["id"]}:
        yield f"{method} gives another entry than {entry_id}: {answer!r}"


def _served(page: Answer) -> list[tuple[int, str]]:
    return [(row["seq"], row["entry"]["id"]) for row in page.result["entries"]]


def _entries(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()[1:]]


def _turned(data: bytes, by: int) -> bytes:
    """Return the lines with those between the header and the last line rotated."""
    header, *lines, last = data.splitlines(keepends=True)
    return b"".join([header, *lines[by:], *lines[:by], last])


@contextmanager
def _saving(path: Path, versions: list[bytes]) -> Iterator[None]:
    """Save one version after the other until the block ends."""
    over = Event()

    def save() -> None:
        turn = 0
        with path.open("r+b", buffering=0) as file:
            while not over.wait(0.003):
                turn += 1
                file.seek(0)
                file.write(versions[turn % len(versions)])

    saver = Thread(target=save)
    saver.start()
    try:
        yield
    finally:
        over.set()
        saver.join()
