"""The comparison of received bytes with owed answers: strict JSON-RPC 2.0, each debt paid once.

Law: this module takes bytes and debts, yields the faults it finds, and knows no daemon. It reads
the form of refusals from protocol.schema.json and `ERROR_DATA`, which other tests compare with protocol.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from sessiond.schema.error_data import ERROR_DATA
from tests.fuzz.judge import Debt, NotStrict, elements, members, strict
from tests.fuzz.streams import Owed

__all__ = ["error_faults", "faults"]

_SCHEMA: Final = Path(__file__).parent.parent.parent / "protocol.schema.json"
# The data that a refusal of each kind always has.
_SAYS: Final = {
    kind: [name for name in members if not name.endswith("?")]
    for kind, members in ERROR_DATA.items()
}
_NULL: Final = b"null"
_SHAPES: Final = (
    ["jsonrpc", "id", "result"],
    ["jsonrpc", "id", "error"],
    ["jsonrpc", "method", "params"],
)


@cache
def kinds() -> dict[str, tuple[str, bool]]:
    """Return the kind of each code, and whether a retry may succeed."""
    errors = json.loads(_SCHEMA.read_text("utf-8"))["errors"]
    return {str(error["code"]): (error["kind"], error["retryable"]) for error in errors}


def faults(received: bytes, owed: Owed, *, is_framed: bool) -> Iterator[str]:
    """Yield the faults in all bytes that one connection received."""
    answers: list[Any] = []
    for body in _frames(received) if is_framed else _lines(received):
        try:
            strict(body)
        except NotStrict as error:
            yield f"it is no strict JSON ({error}): {body[:200]!r}"
            continue
        text = body.decode()
        if text.startswith("["):
            batch = [_read(part) for part in elements(text)]
            answers.append([one for one, _ in batch])
            yield from (f"{fault}: {text[:300]}" for _, found in batch for fault in found)
        else:
            answer, found = _read(text)
            yield from (f"{fault}: {text[:300]}" for fault in found)
            if answer is not None:
                answers.append(answer)
    yield from _unsettled(answers, owed)


Answer = tuple[bytes, int | None]


def _lines(received: bytes) -> list[bytes]:
    lines = received.split(b"\n")
    return lines if lines.pop() == b"" else [*lines, b"no end of the last line"]


def _frames(received: bytes) -> Iterator[bytes]:
    while received:
        header, mark, received = received.partition(b"\r\n\r\n")
        size = header.removeprefix(b"Content-Length: ")
        if not mark or not size.isdigit():
            yield b"no header: " + header[:100]
            return
        yield received[: int(size)]
        received = received[int(size) :]


def _read(text: str) -> tuple[Answer | None, list[str]]:
    """Return the id and code of an answer, None for a notification, and the faults of its form."""
    found = list(members(text)) if text.startswith("{") else []
    if [name for name, _, _ in found] not in _SHAPES:
        return None, ["it has not the members of a message"]
    value = {name: part for name, _, part in found}
    if value["jsonrpc"] != "2.0":
        return None, ["it is of another JSON-RPC"]
    if "method" in value:
        return None, []
    id_text = found[1][1].encode()
    if "error" not in value:
        return (id_text, None), []
    return (id_text, int(value["error"]["code"])), list(error_faults(value["error"]))


def error_faults(error: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of an error object, by the table of errors."""
    if set(error) != {"code", "message", "data"} or not error["message"]:
        yield "it is no error object of ours"
        return
    kind, retryable = kinds().get(str(error["code"]), ("unknown", False))
    data = error["data"]
    if data["kind"] != kind or (data["retryable"] and not retryable):
        yield f"code {error['code']} is not {data['kind']}"
    if kind == "internal":
        yield "it is a bug"
    for name in _SAYS.get(kind, ()):
        if name not in data:
            yield f"{kind} without {name}"


def _unsettled(answers: list[Any], owed: Owed) -> Iterator[str]:
    """Yield unpaid debts and answers that were not owed."""
    taken: dict[int, int] = {}

    def settle(place: int, tried: set[int]) -> bool:
        """Find an answer for a debt, reassigning other answers if needed (Kuhn's algorithm)."""
        for number, answer in enumerate(answers):
            if number not in tried and pays(answer, owed.debts[place]):
                tried.add(number)
                if number not in taken or settle(taken[number], tried):
                    taken[number] = place
                    return True
        return False

    # Optional debts come last, so that they take no answer from other debts.
    order = sorted(range(len(owed.debts)), key=lambda place: owed.debts[place].optional)
    for place in order:
        if not settle(place, set()) and not owed.debts[place].optional:
            yield f"no answer to {owed.debts[place]!r:.500}"
    if not owed.closes:
        for number, answer in enumerate(answers):
            if number not in taken:
                yield f"an answer to nothing: {answer!r:.500}"


def pays(answer: Any, debt: Debt) -> bool:
    """Return whether a debt allows this answer."""
    if isinstance(answer, list):
        return bool(debt.members) and _pays_all(answer, debt.members)
    id_text, code = answer
    return id_text in debt.ids and (debt.codes is None or code in debt.codes)


def _pays_all(answers: Sequence[Answer | None], debts: Sequence[Debt]) -> bool:
    """Return whether the answers pay the debts in order; only optional debts may stay unpaid."""
    if not debts:
        return not answers
    first, rest = debts[0], debts[1:]
    if answers and answers[0] is not None and pays(answers[0], first):
        return _pays_all(answers[1:], rest)
    return first.optional and _pays_all(answers, rest)
