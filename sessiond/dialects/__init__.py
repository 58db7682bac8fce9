"""The dialects: line to entry and back. Each dialect has a folder of its own.

A new dialect needs a folder here, a line in `DIALECTS`, and samples in `tests/samples/<name>/`.

    base.py          the port of a dialect
    native/          the native dialect
    pi/              the pi dialect
    operator/        the operator dialect
    piglet/          the piglet dialect
    sharur/          the sharur dialect
    agents/          sessions of other agents, read where they lie
    places.py        where programs keep their files
    member_names.py  what dialects share but for the names of members
    translated.py    dialects whose lines are read as native lines
    checks.py        what several programs' files refuse
    compose.py       blocks of a message that another dialect wrote
    entry_members.py type and own members of an entry to write
    message_lines.py the usual message lines, as columns
    payload.py       the decoding of message payloads
    usual.py         messages of the usual shape, in one pass
    usage.py         the usage of a message
    lenient_json.py  JSON that a strict decoder refuses
    recovery.py      whole objects on a damaged line
    rests.py         ends of lines whose beginning is missing
    copying.py       an entry in another place
    summaries.py     the text and files of a summary
    settings.py      model and thinking level of a line
    preview.py       the first words of an entry
    words.py         the searchable texts of an entry
    times.py         times of a line
"""

from __future__ import annotations

from typing import Final

from sessiond.dialects.base import BadHeader, Dialect
from sessiond.dialects.native.dialect import NATIVE
from sessiond.dialects.operator.dialect import OPERATOR
from sessiond.dialects.pi.dialect import PI
from sessiond.dialects.piglet.dialect import PIGLET
from sessiond.dialects.sharur.dialect import SHARUR
from sessiond.model.entries import Header

DIALECTS: Final[tuple[Dialect, ...]] = (NATIVE, PI, OPERATOR, PIGLET, SHARUR)

UNKNOWN_HEADER: Final = "is no session header of a known format"
# The reasons that a dialect gives for a line that was never meant for that dialect.
_NOT_MINE: Final = frozenset({"is no session header", "is empty"})
# Each header has one of these texts: as its type, or as the kind of the oldest files of sharur.
_HEADER_WORDS: Final = (b'"session"', b'"session_header"', b'"meta"', b'"metadata"', b'"header"')


def dialect_named(name: str) -> Dialect:
    """Return the dialect of this name. Raises StopIteration for a name that no dialect has."""
    return next(dialect for dialect in DIALECTS if dialect.name == name)


def recognise(first_line: bytes) -> tuple[Dialect, Header]:
    """Return the dialect of the file with this header line, and the decoded header. Raises BadHeader.

    The error's reason comes from the dialect for which the line seems to be meant, if there is one.
    """
    reason: BadHeader | None = None
    for dialect in DIALECTS:
        try:
            header = dialect.decode_header(first_line)
        except BadHeader as bad:
            if reason is None and str(bad) not in _NOT_MINE:
                reason = bad
        else:
            return dialect.for_file(header), header
    raise reason or BadHeader(UNKNOWN_HEADER)


def sniff(first_line: bytes) -> Dialect | None:
    """Return the dialect of a header line; None if no dialect accepts the line."""
    # Nearly all lines that a list asks for are other agents', which five dialects would decode in vain.
    if b"\\u" not in first_line and not any(word in first_line for word in _HEADER_WORDS):
        return None
    try:
        return recognise(first_line)[0]
    except BadHeader:
        return None
