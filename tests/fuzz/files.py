"""Session files damaged line by line, field by field and byte by byte.

Law: pure. `mutated_file` returns a file and keeps no state. The readers of the file, and
`whole_lines`, which knows JSON but not sessiond, decide what is right about the file.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

from tests.fuzz.judge import NotStrict, nesting, strict
from tests.fuzz.mutations import mutated_body, mutated_bytes, noise
from tests.fuzz.samples import HEADERS, TIME, samples

__all__ = ["mutated_file", "whole_lines"]

_ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1.5, 2**53, 2**64, 10**400, 1e300, -1e-300, "", "x", "main", " "),
    *([], {}, [[]], [None], {"a": None}, [1, 2], [2, 2], [1, 1], [0, 0], [3, 2], [1, 10**30]),
    *("\0", "\u2028", "\ud83d\ude00", "../x", "x" * 2000, "id with blank", "2026-13-45T99:99:99Z"),
    *("user", "assistant", "toolResult", "drop", "reset", "null", "NaN", 1736937000000, -(2**70)),
    *("0000-00-00T00:00:00.000Z", "9999-12-31T23:59:59.999+14:00", "+275760-09-13T00:00:00Z"),
)
_TYPES: Final = (
    *("message", "custom_message", "branch_summary", "compaction", "thinking_level_change"),
    *("model_change", "custom", "label", "session_info", "leaf", "session_header", "session"),
    *("reaction", "", "sessiond.x"),
)
Lines = list[bytes]
LineMutation = Callable[[Lines, random.Random], None]


def _at(lines: Lines, dice: random.Random) -> int:
    return dice.randrange(len(lines)) if lines else 0


def cut_line(lines: Lines, dice: random.Random) -> None:
    at = _at(lines, dice)
    lines[at] = lines[at][: dice.randrange(len(lines[at]) + 1)]


def double_line(lines: Lines, dice: random.Random) -> None:
    lines.insert(_at(lines, dice), lines[_at(lines, dice)])


def swap_lines(lines: Lines, dice: random.Random) -> None:
    a, b = _at(lines, dice), _at(lines, dice)
    lines[a], lines[b] = lines[b], lines[a]


def drop_line(lines: Lines, dice: random.Random) -> None:
    del lines[_at(lines, dice)]


def drop_header(lines: Lines, _dice: random.Random) -> None:
    del lines[0]


def glue_lines(lines: Lines, dice: random.Random) -> None:
    at = _at(lines, dice)
    lines[at : at + 2] = [b"".join(lines[at : at + 2])]


def put_header(lines: Lines, dice: random.Random) -> None:
    lines.insert(_at(lines, dice), dice.choice(HEADERS) % b"another-session")


def put_other_dialect(lines: Lines, dice: random.Random) -> None:
    lines.insert(_at(lines, dice), dice.choice(dice.choice(samples()).split(b"\n")))


def put_odd_line(lines: Lines, dice: random.Random) -> None:
    odd = [
        *(b"", b" ", b"\r", b"null", b"[]", b"{}", b"{", b"\0" * 4096, b"\xef\xbb\xbf", b'"x"'),
        *(noise(dice, 40).replace(b"\n", b""), b"[" * 600 + b"]" * 600, b"1e400"),
        b'{"type":"custom","id":"deep","data":' + b"[" * 511 + b"]" * 511 + b"}",
        b'{"type":"custom","id":"deeper","data":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"type":"custom","id":"long","custom_type":"x","data":"' + b"x" * 300_000 + b'"}',
        b'{"type":"message","id":"bad","message":{"role":"user","content":"\xff\xfe"}}',
        b'{"type":"message","id":"half","message":{"role":"user","content":"\\ud800"}}',
        b'{"type":"message","id":"huge","message":{"role":"assistant","usage":{"input":1e400}}}',
        b'{"type":"message","id":"twice","id":"twice2","message":{"role":"user"},"type":"leaf"}',
    ]
    lines.insert(_at(lines, dice) + 1, dice.choice(odd))


def put_labels(lines: Lines, dice: random.Random) -> None:
    """Many records about nothing."""
    kind = dice.choice(["label", "leaf", "session_info"])
    many = dice.choice([3, 150])
    lines.extend(
        b'{"type":"%b","id":"l%d","parent_id":null,%b,"target_id":"nowhere%d","label":"x"}'
        % (kind.encode(), number, TIME, number)
        for number in range(many)
    )


def put_circle(lines: Lines, dice: random.Random) -> None:
    """Parents, leaves and labels that lead back to themselves."""
    at = len(lines) + 1
    for name, other in (("c1", "c2"), ("c2", "c1"), ("c3", "c3")):
        kind = dice.choice(_TYPES)
        entry = {"type": kind, "id": name, "parent_id": other, "target_id": other, "label": "x"}
        entry |= {"parentId": other, "targetId": other, "first_kept_entry_id": other}
        entry |= {"firstKeptEntryId": other, "summary": "s", "from_id": other}
        message = {"role": "user", "content": "x"}
        lines.insert(at, json.dumps({**entry, "message": message}).encode())


def tear_atom(lines: Lines, dice: random.Random) -> None:
    """Insert some lines of an append with several entries, perhaps in another order."""
    count = dice.randrange(2, 5)
    atom = [
        b'{"type":"message","id":"%b%d","parent_id":null,%b,"atom":[%d,%d],"message":{"role":"user"}}'
        % (dice.choice([b"a", b"b"]), number, TIME, number, count)
        for number in range(1, count + 1)
    ]
    # Half of these appends are marked as sessiond's own; an opening may cut their end.
    if dice.random() < 0.5:
        mark = b'"atom_of":%b,' % json.dumps(_header_id(lines)).encode()
        atom[0] = atom[0].replace(b'"message":', mark + b'"message":')
    kept = [line for line in atom if dice.random() < 0.7]
    if dice.random() < 0.2:
        dice.shuffle(kept)
    at = len(lines) if dice.random() < 0.7 else _at(lines, dice) + 1
    lines[at:at] = kept


def _header_id(lines: Lines) -> Any:
    try:
        return json.loads(lines[0])["id"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return "nowhere"


def odd_field(lines: Lines, dice: random.Random) -> None:
    """Give a field at any depth another value or type, or remove it."""
    at = _at(lines, dice)
    try:
        entry = json.loads(lines[at])
    except (ValueError, RecursionError):
        return
    place = entry
    while isinstance(place, dict) and place:
        name = dice.choice(list(place))
        inner = place[name]
        if isinstance(inner, dict) and dice.random() < 0.6:
            place = inner
            continue
        if dice.random() < 0.2:
            del place[name]
        elif name == "type" and dice.random() < 0.7:
            place[name] = dice.choice(_TYPES)
        elif name in {"id", "parent_id", "parentId", "target_id"} and dice.random() < 0.6:
            place[name] = _id_of(lines, dice)
        else:
            place[name] = dice.choice(_ODD)
        break
    lines[at] = json.dumps(entry, ensure_ascii=dice.random() < 0.5).encode(errors="replace")


def _id_of(lines: Lines, dice: random.Random) -> Any:
    try:
        return json.loads(lines[_at(lines, dice)]).get("id")
    except (ValueError, AttributeError, RecursionError):
        return "nowhere"


def bytes_of_line(lines: Lines, dice: random.Random) -> None:
    at = _at(lines, dice)
    lines[at] = mutated_body(lines[at], dice, lines)


_ON_LINES: Final[tuple[LineMutation, ...]] = (
    cut_line,
    double_line,
    swap_lines,
    drop_line,
    glue_lines,
    put_header,
    put_other_dialect,
    put_odd_line,
    put_odd_line,
    put_labels,
    put_circle,
    tear_atom,
    tear_atom,
    odd_field,
    odd_field,
    odd_field,
    odd_field,
    bytes_of_line,
    bytes_of_line,
)
_WHOLE: Final[tuple[bytes, ...]] = (b"", b"\n", b"\n\n", b"\0", b"{}", b"{}\n", b"\r\n", b" ")


def mutated_file(dice: random.Random) -> bytes:
    """Return a session file with a few faults."""
    if dice.random() < 0.02:
        return dice.choice(_WHOLE)
    data = dice.choice(samples())
    lines = data.removesuffix(b"\n").split(b"\n")
    if dice.random() < 0.05:
        drop_header(lines, dice)
    for _ in range(dice.choice([1, 1, 2, 3, 6])):
        if lines:
            dice.choice(_ON_LINES)(lines, dice)
    if dice.random() < 0.05:
        lines = [line + b"\r" for line in lines]
    data = b"\n".join(lines) + b"\n"
    if dice.random() < 0.05:
        data = b"\xef\xbb\xbf" + data
    if dice.random() < 0.2:
        data = mutated_bytes(data, dice)
    if dice.random() < 0.3:
        data = data[: -dice.choice([1, 1, 2, 5, 40])]
    return data


def whole_lines(data: bytes) -> list[bytes]:
    """Return the lines that any JSON reader takes for an entry, without the header."""
    found = []
    for line in data.split(b"\n")[1:]:
        if nesting(line) > 100:
            continue
        try:
            value = strict(line.removesuffix(b"\r"))
        except NotStrict:
            continue
        # An entry without an id is a line that does not parse.
        if not isinstance(value, dict) or type(value.get("id")) is not str or not value["id"]:
            continue
        if type(value.get("type")) is str and value["type"] not in {"session", "session_header"}:
            found.append(line)
    return found
