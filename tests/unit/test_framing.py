"""Framing, played the way h11 plays its cases: whole, byte by byte, with more data behind."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.errors import InvalidRequest, ParseFailed, SessiondError, TooLarge
from sessiond.limits import FRAME_BYTES_MAX, NESTING_MAX
from sessiond.rpc.framing import Framer, Framing, frame_all, frame_content_length, frame_ndjson

MAX = 64
HEADER_MAX = 80
BOUNDS = {"frame_bytes_max": MAX, "header_bytes_max": HEADER_MAX}
REQUEST = b'{"id":1,"method":"m"}'
OTHER = b'{"id":2,"method":"n"}'
LONG = b'{"x":"' + b"a" * (MAX - 8) + b'"}'


def cl(body: bytes, header: bytes = b"Content-Length: %d\r\n\r\n") -> bytes:
    return header % len(body) + body


# What is received, and what must come out: a body, or the type of an error.
CASES: dict[str, tuple[bytes, list[bytes | type[SessiondError]]]] = {
    "one line": (REQUEST + b"\n", [REQUEST]),
    "two lines": (REQUEST + b"\n" + OTHER + b"\n", [REQUEST, OTHER]),
    "lines that end in CR LF": (REQUEST + b"\r\n" + OTHER + b"\r\n", [REQUEST, OTHER]),
    "only one CR is stripped": (REQUEST + b"\r\r\n", [REQUEST + b"\r"]),
    "blank lines between": (REQUEST + b"\n\n \t\r\n\r\n" + OTHER + b"\n", [REQUEST, OTHER]),
    "blank bytes in front": (b"\r\n \t\n" + REQUEST + b"\n", [REQUEST]),
    "spaces around an object": (b" " + REQUEST + b" \n", [REQUEST + b" "]),
    "a batch first": (b"[1,2]\n", [b"[1,2]"]),
    "a CR between tokens": (b'{"id":1,\r"method":"m"}\n', [b'{"id":1,\r"method":"m"}']),
    "U+2028 ends no line": (
        b'{"x":"\xe2\x80\xa8\xc2\x85"}\n',
        [b'{"x":"\xe2\x80\xa8\xc2\x85"}'],
    ),
    "a line of exactly the limit": (LONG + b"\r\n", [LONG]),
    "a line one byte over the limit": (LONG + b" \n" + OTHER + b"\n", [TooLarge, OTHER]),
    "a line far over the limit": (
        b"[" + b"1," * MAX * 5 + b"1]\n" + OTHER + b"\n",
        [TooLarge, OTHER],
    ),
    "a line that is not UTF-8": (
        REQUEST + b"\n\xff\xfe\n" + OTHER + b"\n",
        [REQUEST, ParseFailed, OTHER],
    ),
    "half a character": (b'{"x":"\xe2\x80"}\n' + OTHER + b"\n", [ParseFailed, OTHER]),
    "a byte order mark later": (
        REQUEST + b"\n\xef\xbb\xbf" + OTHER + b"\n",
        [REQUEST, ParseFailed],
    ),
    "a line that is no JSON is somebody else's business": (
        REQUEST + b"\nhello\x00\n",
        [REQUEST, b"hello\x00"],
    ),
    "one frame": (cl(REQUEST), [REQUEST]),
    "two frames": (cl(REQUEST) + cl(OTHER), [REQUEST, OTHER]),
    "a header in any case": (cl(REQUEST, b"CONTENT-LENGTH:%d\r\n\r\n"), [REQUEST]),
    "a small c": (cl(REQUEST, b"content-length:   %d  \r\n\r\n"), [REQUEST]),
    "another header first": (
        cl(REQUEST, b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"),
        [REQUEST],
    ),
    "a header of LF only": (cl(REQUEST, b"Content-Length: %d\n\n"), [REQUEST]),
    "blank lines between frames": (cl(REQUEST) + b"\r\n\n\r\n" + cl(OTHER), [REQUEST, OTHER]),
    "newlines inside a body": (cl(b'{\n"id":1}\n'), [b'{\n"id":1}\n']),
    "an empty body": (cl(b"") + cl(OTHER), [b"", OTHER]),
    "a body of exactly the limit": (cl(LONG), [LONG]),
    "a body one byte over the limit": (cl(LONG + b" ") + cl(OTHER), [TooLarge, OTHER]),
    "a body far over the limit": (cl(b"[" * MAX * 5) + cl(OTHER), [TooLarge, OTHER]),
    "a body that is not UTF-8": (cl(b'{"x":"\xff"}') + cl(OTHER), [ParseFailed, OTHER]),
    "a body with a byte order mark": (cl(b"\xef\xbb\xbf{}") + cl(OTHER), [ParseFailed, OTHER]),
}

# What is received, and a word of the reason for which the connection is closed without an answer.
CLOSED: dict[str, tuple[bytes, str]] = {
    "HTTP": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "neither"),
    "an HTTP verb that starts like us": (b"CONNECT x:1 HTTP/1.1\r\n\r\n", "neither"),
    "a word that starts even more like us": (b"Contents: 5\r\n\r\n", "neither"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "neither"),
    "NUL": (b"\x00\x00\x00\x05hello", "neither"),
    "a byte order mark first": (b"\xef\xbb\xbf{}\n", "neither"),
    "a word": (b"hello\n", "neither"),
    "a header without a colon": (b"Content-Length 5\r\n\r\n", "colon"),
    "a header without a length": (b"Content-Type: x\r\n\r\n{}", "without Content-Length"),
    "a length of letters": (b"Content-Length: five\r\n\r\n{}", "no length"),
    "a negative length": (b"Content-Length: -5\r\n\r\n{}", "no length"),
    "no length": (b"Content-Length:\r\n\r\n{}", "no length"),
    "a length no memory has": (b"Content-Length: " + b"9" * 19 + b"\r\n\r\n{}", "no length"),
    "two lengths": (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "twice"),
    "a header that never ends": (b"Content-Type: " + b"x" * HEADER_MAX, "too long"),
    "header lines that never end": (b"Content-Type: x\r\n" * 20, "too long"),
}


def play(chunks: list[bytes]) -> list[bytes | type[SessiondError]]:
    """Return the frames that the chunks give, with errors as their types."""
    machine = Framer(**BOUNDS)
    items = [item for chunk in chunks for item in machine.feed(chunk)]
    assert machine.closing is None
    return [item if isinstance(item, bytes) else type(item) for item in items]


@pytest.mark.parametrize("name", CASES)
def test_a_case_whole_byte_by_byte_and_with_trailing_data(name: str) -> None:
    data, expected = CASES[name]
    assert play([data]) == expected
    assert play([bytes([one]) for one in data]) == expected
    begun = cl(OTHER)[:-3] if data[:1] in b"Cc" else OTHER
    assert play([data + begun]) == expected
    assert play([bytes([one]) for one in data + begun]) == expected


@given(st.data(), st.sampled_from(sorted(CASES)))
def test_chunk_boundaries_change_nothing(data: st.DataObject, name: str) -> None:
    received, expected = CASES[name]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(received)))))
    edges = [0, *cuts, len(received)]
    assert play([received[a:b] for a, b in itertools.pairwise(edges)]) == expected


@given(
    st.lists(st.binary(max_size=MAX + 4).map(lambda body: body.replace(b"\n", b"")), max_size=6),
    st.sampled_from(Framing),
    st.data(),
)
def test_any_bytes_in_any_pieces_come_out_the_same(
    bodies: list[bytes], framing: Framing, data: st.DataObject
) -> None:
    stream = b"".join(framing.encode(body) for body in [REQUEST, *bodies])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    edges = [0, *cuts, len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert play(pieces) == play([stream]) == play([bytes([one]) for one in stream])
    if framing is Framing.CONTENT_LENGTH:
        assert len(play([stream])) == 1 + len(bodies)


@pytest.mark.parametrize("name", CLOSED)
def test_what_is_no_client_is_closed_and_never_answered(name: str) -> None:
    data, reason = CLOSED[name]
    for chunks in ([data], [bytes([one]) for one in data]):
        machine = Framer(**BOUNDS)
        assert [item for chunk in chunks for item in machine.feed(chunk)] == []
        assert machine.closing is not None
        assert reason in machine.closing
        assert machine.feed(REQUEST + b"\n") == []
        assert machine.end() == []


def test_what_was_complete_before_the_bad_header_is_still_handed_on() -> None:
    machine = Framer(**BOUNDS)
    assert machine.feed(cl(REQUEST) + b"nonsense\r\n" + cl(OTHER)) == [REQUEST]
    assert machine.closing is not None


@pytest.mark.parametrize("late", [REQUEST + b"\n", REQUEST, b"[1]\n", b"{"])
@pytest.mark.parametrize("before", [b"", b"Content-Type: x\r\n"], ids=["a frame", "half a header"])
def test_json_where_a_header_is_due_is_refused_and_closes_at_its_first_byte(
    late: bytes, before: bytes
) -> None:
    data = cl(OTHER) + before + late
    for chunks in ([data], [bytes([one]) for one in data]):
        machine = Framer(**BOUNDS)
        body, refusal = [item for chunk in chunks for item in machine.feed(chunk)]
        assert body == OTHER
        assert isinstance(refusal, InvalidRequest)
        assert machine.closing is not None
        assert "framing" in machine.closing


def test_an_http_verb_is_recognised_at_its_first_wrong_letter() -> None:
    machine = Framer(**BOUNDS)
    machine.feed(b"CO")
    assert machine.closing is None
    machine.feed(b"P")
    assert machine.closing is not None


def test_the_framing_is_unknown_until_the_first_byte_that_tells() -> None:
    machine = Framer(**BOUNDS)
    machine.feed(b" \r\n\t")
    assert machine.framing is None
    assert machine.frame(b"{}") == b"{}\n"
    machine.feed(b"{")
    assert machine.framing is Framing.NDJSON
    machine = Framer(**BOUNDS)
    machine.feed(b"\nConte")
    assert machine.framing is None
    machine.feed(b"nt-")
    assert machine.framing is Framing.CONTENT_LENGTH
    assert machine.frame(b"{}") == b"Content-Length: 2\r\n\r\n{}"


def test_all_connections_of_a_framing_share_one_encode_function() -> None:
    first, second = (
        Framer(**BOUNDS),
        Framer(**BOUNDS),
    )
    first.feed(cl(REQUEST))
    second.feed(cl(OTHER))
    assert first.frame is second.frame is Framing.CONTENT_LENGTH.encode is frame_content_length
    assert Framer(**BOUNDS).frame is Framing.NDJSON.encode is frame_ndjson


def test_a_payload_with_newlines_goes_out_as_one_line_that_means_the_same() -> None:
    body = b'{\n "a" : [\n1,\r\n2 ] }'
    line = frame_ndjson(body)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line) == {"a": [1, 2]}


@pytest.mark.parametrize("framing", Framing)
@pytest.mark.parametrize("bodies", [[b"{}"], [b"{}", b'{"a":1}'], [b"{}", b'{\n"a":1}', b"[1]"]])
def test_several_bodies_are_framed_as_each_would_be(framing: Framing, bodies: list[bytes]) -> None:
    frame = framing.encode
    assert frame_all(frame, bodies) == b"".join(map(frame, bodies))


def test_the_end_of_input_completes_a_last_line_but_no_frame() -> None:
    machine = Framer(**BOUNDS)
    assert machine.feed(REQUEST) == []
    assert machine.end() == [REQUEST]
    machine = Framer(**BOUNDS)
    assert machine.feed(REQUEST + b"\n") == [REQUEST]
    assert machine.end() == []
    machine = Framer(**BOUNDS)
    assert machine.feed(cl(REQUEST)[:-1]) == []
    assert machine.end() == []
    assert Framer(**BOUNDS).end() == []


def test_a_too_long_line_is_refused_once_and_not_again_at_the_end() -> None:
    machine = Framer(**BOUNDS)
    items = machine.feed(b"[" * (MAX + 2))
    assert [type(item) for item in items] == [TooLarge]
    assert machine.feed(b"[" * MAX) == []
    assert machine.end() == []


def test_a_refused_size_names_the_limit() -> None:
    (error,) = Framer(**BOUNDS).feed(b"[" * (MAX + 2))
    assert isinstance(error, TooLarge)
    assert error.data() == {"kind": "too_large", "retryable": False, "limit": MAX}


@pytest.mark.parametrize("start", [b"[", b"Content-Length: 999999999\r\n\r\n"])
def test_what_is_skipped_is_not_kept(start: bytes) -> None:
    machine = Framer(**BOUNDS)
    machine.feed(start)
    for _ in range(50):
        machine.feed(b"x" * 1000)
        assert machine._reader is not None
        assert len(machine._reader._partial) <= MAX + 1


@pytest.mark.parametrize("framing", list(Framing))
def test_a_huge_frame_in_many_chunks_is_looked_at_once(framing: Framing) -> None:
    """Scanning the frame anew for each chunk would cost terabytes: the test would never end."""
    body = b'{"x":"' + b"a" * (FRAME_BYTES_MAX - 100) + b'"}'
    stream = framing.encode(body)
    machine = Framer()
    items = [
        item for at in range(0, len(stream), 128) for item in machine.feed(stream[at : at + 128])
    ]
    assert items == [body]


@pytest.mark.parametrize(
    ("levels", "taken"), [(NESTING_MAX - 1, True), (NESTING_MAX, False), (3 * NESTING_MAX, False)]
)
@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_has_a_bound_that_no_stack_decides(
    levels: int, taken: bool, brackets: tuple[bytes, bytes]
) -> None:
    opening, closing = brackets
    body = b'{"p":' + opening * levels + b"1" + closing * levels + b"}"
    (item,) = Framer().feed(body + b"\n")
    assert (item == body) is taken


def test_brackets_inside_strings_are_no_nesting() -> None:
    body = b'{"p":["' + b"[" * 5000 + b'","\\"[[",{}]}'
    assert Framer().feed(body + b"\n") == [body]


@pytest.mark.timeout(40)
def test_deep_brackets_cost_no_look_for_each_level() -> None:
    """500 looks instead of one were a minute for the longest frame."""
    levels = NESTING_MAX - 2
    chain = b"[" * levels + b"0" + b"]" * levels
    body = b"[" + b",".join([chain] * (FRAME_BYTES_MAX // (len(chain) + 1) - 1)) + b"]"
    assert Framer().feed(body + b"\n") == [body]
