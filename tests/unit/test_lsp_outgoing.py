"""Messages that the server sends: encoded by one thread, and written by another."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from io import BufferedReader, FileIO

import pytest
from lsprotocol.converters import get_converter

from sessiond.lsp import outgoing as module
from sessiond.lsp.answers import Encoded, encoded
from sessiond.lsp.outgoing import Outgoing

MESSAGE = b"x" * 1_000_000


@pytest.fixture
def pipe() -> Iterator[tuple[BufferedReader, Outgoing]]:
    """Return the reading end of a pipe, and what writes to the pipe."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as editor, FileIO(writing, "w") as stream:
        yield editor, Outgoing(stream)


def test_an_editor_that_does_not_read_yet_is_not_waited_for(
    pipe: tuple[BufferedReader, Outgoing],
) -> None:
    editor, outgoing = pipe
    for number in range(5):
        outgoing.write(MESSAGE + b"%d" % number)
    sent = b"".join(MESSAGE + b"%d" % number for number in range(5))
    assert editor.read(len(sent)) == sent
    outgoing.close()


def test_an_editor_that_reads_nothing_is_waited_for_in_the_end(
    pipe: tuple[BufferedReader, Outgoing], monkeypatch: pytest.MonkeyPatch
) -> None:
    editor, outgoing = pipe
    monkeypatch.setattr(module, "LSP_WAITING_BYTES_MAX", len(MESSAGE))
    outgoing.write(MESSAGE)
    assert not outgoing.has_room()
    assert editor.read(len(MESSAGE)) == MESSAGE
    outgoing.write(b"more")
    outgoing.close()
    assert editor.read(4) == b"more"


def test_an_editor_that_is_gone_is_an_error_of_the_next_message(
    pipe: tuple[BufferedReader, Outgoing],
) -> None:
    editor, outgoing = pipe
    editor.close()
    outgoing.write(MESSAGE)
    outgoing.close()
    with pytest.raises(BrokenPipeError):
        outgoing.write(MESSAGE)


def test_an_answer_is_put_into_its_message_as_it_is() -> None:
    answer = encoded(get_converter(), [{"name": "é\U0001f600"}])
    for request_id in (7, 'a "quoted" id'):
        head, body = answer.message(request_id).split(b"\r\n\r\n")
        assert head == b"Content-Length: %d" % len(body)
        found = {"id": request_id, "jsonrpc": "2.0", "result": [{"name": "é\U0001f600"}]}
        assert json.loads(body) == found


def test_half_a_pair_has_a_spelling_of_its_own() -> None:
    assert encoded(get_converter(), "a\ud83d") == Encoded(b'"a\\ud83d"')
