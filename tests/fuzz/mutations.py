"""Mutations of bytes: what noise, bugs and malice do to a frame or a file.

Law: pure. Equal dice and equal bytes give equal results, so a seed is enough to repeat a finding.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

__all__ = ["IDS", "mutated_body", "mutated_bytes", "noise"]

Mutation = Callable[[bytes, random.Random], bytes]

# Valid and invalid ids of requests.
IDS: Final = (
    *(b"0", b"-0", b"1.50", b"1e400", b"-1E-400", b"18446744073709551616", b"9" * 5000),
    *(b"null", b"true", b"[]", b"{}", b"[1]", b'{"id":1}'),
    *(b'""', b'"1"', b'"a\\nb"', b'"\\u0000"', b'"\\ud83d\\ude00"', b'"\\ud800"', b'"\\udc00x"'),
    *('"\u2028\u2029"'.encode(), '"\ufeff"'.encode(), b'"' + b"i" * 70_000 + b'"', b'"\\/"'),
    *(b"01", b"+1", b".5", b"1.", b"0x1", b"NaN", b"-Infinity", b"nul", b"--1", b'"', b"'1'"),
)
_PIECES: Final = (
    *(b"\0", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\x1b"),
    *(b"\\ud800", b"\\udfff", b"\\ud83d\\ud83d", b"\\u0000", b"\\u", b"\\x41", b"\\"),
    *(b"\r", b"\n", b"\r\n", b"\t", b" ", b"\x0b", b"\x85", "\u2028".encode()),
    *(b'"', b"{", b"}", b"[", b"]", b":", b",", b"//", b"/**/", b"null", b"true", b"NaN", b"-"),
    *(b"1e400", b"-1e400", b"1E+9999999999", b"9" * 400, b"0" * 300, b"0.1" + b"3" * 300),
    *(b"[" * 600, b"{" * 600, b'{"a":' * 600, b"[" * 511 + b"]" * 511, b"[" * 520 + b"]" * 520),
    *(b'"id":1,', b'"id":"twice",', b'"method":"server/ping",', b'"jsonrpc":"1.0",'),
    *(b'"params":[],', b'"params":null,', b'"result":1,', b'"error":{},', b'"_meta":{"a":1},'),
)
_VALUE: Final = re.compile(
    rb'(?<=[:,\[])\s*("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|\[\]|\{\})(?=\s*[,\]}])'
)
_ID: Final = re.compile(rb'"id":\s*("(?:[^"\\]|\\.)*"|[^,"}]+)')


def _place(data: bytes, dice: random.Random) -> int:
    return dice.randrange(len(data) + 1)


def flip_bit(data: bytes, dice: random.Random) -> bytes:
    if not data:
        return data
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def set_byte(data: bytes, dice: random.Random) -> bytes:
    at = _place(data, dice)
    return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]


def cut_off(data: bytes, dice: random.Random) -> bytes:
    return data[: _place(data, dice)]


def take_out(data: bytes, dice: random.Random) -> bytes:
    at = _place(data, dice)
    return data[:at] + data[at + dice.choice([1, 2, 5, 30]) :]


def put_in(data: bytes, dice: random.Random) -> bytes:
    at = _place(data, dice)
    return data[:at] + dice.choice(_PIECES) + data[at:]


def put_noise(data: bytes, dice: random.Random) -> bytes:
    at = _place(data, dice)
    return data[:at] + noise(dice, dice.choice([1, 3, 20])) + data[at:]


def double_part(data: bytes, dice: random.Random) -> bytes:
    start, end = sorted((_place(data, dice), _place(data, dice)))
    return data[:end] + data[start:]


def swap_parts(data: bytes, dice: random.Random) -> bytes:
    a, b, c = sorted(_place(data, dice) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def noise(dice: random.Random, size: int) -> bytes:
    """Return random bytes."""
    return dice.randbytes(size)


def replace_value(data: bytes, dice: random.Random) -> bytes:
    """Replace a value; the result is still JSON in most cases."""
    found = list(_VALUE.finditer(data))
    if not found:
        return put_in(data, dice)
    start, end = dice.choice(found).span(1)
    return data[:start] + dice.choice([*IDS, *_PIECES]) + data[end:]


def replace_id(data: bytes, dice: random.Random) -> bytes:
    found = _ID.search(data)
    if found is None:
        return put_in(data, dice)
    return data[: found.start(1)] + dice.choice(IDS) + data[found.end(1) :]


def drop_value(data: bytes, dice: random.Random) -> bytes:
    """Remove a member or an element."""
    found = list(re.finditer(rb'("[a-z_]+":)?("[^"\\]*"|-?\d+|true|false|null),', data))
    if not found:
        return cut_off(data, dice)
    start, end = dice.choice(found).span()
    return data[:start] + data[end:]


def blanks(data: bytes, dice: random.Random) -> bytes:
    """Put a blank or line break between tokens, which keeps the value where they are allowed."""
    at = [place for place, byte in enumerate(data) if byte in b",:{}[]"]
    if not at:
        return data
    place = dice.choice(at) + 1
    return data[:place] + dice.choice([b" ", b"\t", b"\r", b"\n", b"\r\n \t"]) + data[place:]


def same(data: bytes, _dice: random.Random) -> bytes:
    """Return the bytes unchanged."""
    return data


_ON_BYTES: Final[tuple[Mutation, ...]] = (
    flip_bit,
    set_byte,
    cut_off,
    take_out,
    put_in,
    put_in,
    put_noise,
    double_part,
    swap_parts,
)
_ON_BODIES: Final[tuple[Mutation, ...]] = (
    *_ON_BYTES,
    replace_value,
    replace_value,
    replace_value,
    replace_id,
    replace_id,
    drop_value,
    drop_value,
    blanks,
)


def mutated_bytes(data: bytes, dice: random.Random) -> bytes:
    """Return the bytes with one or a few faults."""
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        data = dice.choice(_ON_BYTES)(data, dice)
    return data


def mutated_body(body: bytes, dice: random.Random, others: list[bytes]) -> bytes:
    """Return a message with a few faults, or with its second half from another message."""
    if dice.random() < 0.05:
        other = dice.choice(others)
        return cut_off(body, dice) + other[_place(other, dice) :]
    for _ in range(dice.choice([1, 1, 2, 3])):
        body = dice.choice(_ON_BODIES)(body, dice)
    return body
