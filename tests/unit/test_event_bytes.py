"""The size of events: never larger than the bound that clients are told."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from sessiond.dialects import DIALECTS
from sessiond.dialects.base import Dialect
from sessiond.limits import (
    CLIENT_ID_CHARS_MAX,
    EVENT_BYTES_MAX,
    FRAME_BYTES_MAX,
    LINE_BYTES_MAX,
    ORIGIN_ID_BYTES_MAX,
)
from sessiond.model.events import Origin
from sessiond.service.log.events import Event, event_body, event_prefix

# A character outside the BMP has four bytes; in a text of JSON none takes more than six.
WIDE = "\x01"
PI = (
    b'{"type":"message","id":%b,"parentId":%b,"timestamp":"2026-01-15T10:30:00.000Z",'
    b'"message":{"role":"user","content":"%b"}}\n'
)
LINES = {
    "native": b'{"type":"message","id":%b,"parent_id":%b,"timestamp":"2026-01-15T10:30:00.000Z",'
    b'"message":{"role":"user","content":"%b"}}\n',
    "pi": PI,
    "sharur": PI,
    "operator": b'{"id":%b,"timestamp":1784000000.25,"parent_id":%b,"type":"message",'
    b'"message":{"contents":"%b","role":"user"}}\n',
    "piglet": b'{"type":"user","id":%b,"parentId":%b,"ts":"2026-01-15T10:30:00.000Z",'
    b'"data":{"content":"%b"}}\n',
}


@pytest.mark.parametrize("spoken", DIALECTS, ids=lambda dialect: dialect.name)
def test_what_stands_around_an_entry_has_room_beside_the_longest_line(spoken: Dialect) -> None:
    name = msgspec.json.encode(WIDE * 1024)
    content = b"x" * (1 << 20)
    line = LINES[spoken.name] % (name, name, content)
    origin = Origin(WIDE * CLIENT_ID_CHARS_MAX, Raw(b'"%b"' % (b"x" * ORIGIN_ID_BYTES_MAX)), True)
    event = Event((1 << 53) - 1, spoken.row(line), spoken.wire(line), origin)
    event.row.head = "h" * 64
    body = event_body(event_prefix("s" * 128, "e" * 128), event, spoken.rules, bodies=True)
    assert len(body) - len(line) < EVENT_BYTES_MAX - LINE_BYTES_MAX
    assert EVENT_BYTES_MAX > FRAME_BYTES_MAX
