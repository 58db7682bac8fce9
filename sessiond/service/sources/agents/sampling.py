"""Samples of large files of other agents: the lines that a list reads of the two ends.

The cost of a sample does not grow with the file, nor with the number of its lines. From the beginning
come lines until the caller has enough, from the end the last lines as far as an answer. Of the lines
between these last lines and the limit come only short ones that state a title or a tag. Of a very long
line comes what `short_texts` keeps, so that memory never has all of such a line.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from sessiond.journal.disk.files import Files
from sessiond.journal.scanning import chunks_of
from sessiond.journal.splitter import LINE_HEAD_BYTES, Splitter, is_blank, without_end
from sessiond.limits import (
    AGENT_LIST_DOCUMENT_BYTES,
    AGENT_LIST_LINES,
    AGENT_LIST_PART_BYTES,
    AGENT_LIST_STEP_BYTES,
    LINE_BYTES_MAX,
    LIST_LINE_BYTES,
    SEARCH_END_BYTES,
    SEARCH_TEXT_BYTES,
)
from sessiond.model.formats import AgentFormatName
from sessiond.model.short_texts import ShortTexts

__all__ = [
    "beginning",
    "both_ends",
    "few",
    "never",
    "searched_lines",
    "short_document",
    "short_lines",
]

# A word in lines of an answer. Where no line near the end has such a word, more lines are read.
_ANSWERS: Final = (b'"assistant"', b'"gemini"', b'"agent_message"')
# Words in lines that state a title or a tag.
_FACTS: Final[Mapping[AgentFormatName, tuple[bytes, ...]]] = {
    "claude-code": (b'"custom-title"', b'"ai-title"', b'"summary"', b'"tag"'),
    "codex": (),
    "gemini-cli": (b'"$set"',),
}


def never() -> bool:
    """Return False: no number of lines is enough."""
    return False


def both_ends(
    files: Files,
    fd: int,
    size: int,
    agent: AgentFormatName | None,
    has_enough: Callable[[], bool],
) -> Iterator[list[bytes]]:
    """Yield the lines of the sample of an open file, some at a time.

    `has_enough` says whether the lines so far are all that is needed of the beginning. The first line
    and the last one are in every sample, up to the limit of a line.
    """
    ends = array("q", [0])
    yield from beginning(files, fd, size, has_enough, ends)
    if len(ends) > 1:
        yield _tail(files, fd, ends[-1], size, agent)


def beginning(
    files: Files, fd: int, size: int, has_enough: Callable[[], bool], ends: array[int] | None = None
) -> Iterator[list[bytes]]:
    """Yield the lines at the beginning of an open file, the first one at least, until there are enough.

    `ends` gets the offset behind each line.
    """
    ends = array("q", [0]) if ends is None else ends
    splitter = short_lines(ends)
    at = 0
    while at < size and not splitter.has_no_header:
        if len(ends) > 1 and (at >= AGENT_LIST_PART_BYTES or has_enough()):
            return
        chunk = files.pread(fd, AGENT_LIST_STEP_BYTES, at)
        if not chunk:
            return
        at += len(chunk)
        yield few([without_end(line) for line in splitter.feed(chunk)])


def _tail(
    files: Files, fd: int, start: int, size: int, agent: AgentFormatName | None
) -> list[bytes]:
    """Return whole lines at the end, behind an offset, one at least if there is one."""
    at, ends = size, 0
    while at > start and ends < 2 and size - at <= LINE_BYTES_MAX:
        step = min(AGENT_LIST_PART_BYTES, at - start)
        at -= step
        ends += files.pread(fd, step, at).count(b"\n")
    splitter = short_lines(array("q", [0]))
    lines = [line for chunk in chunks_of(files, fd, at, size) for line in splitter.feed(chunk)]
    if at > start:
        # The first piece is the end of a line that begins before.
        del lines[:1]
    return few(_wanted(list(map(without_end, lines)), agent))


def short_lines(ends: array[int]) -> Splitter:
    """Return a splitter for lines of which a list takes what it needs."""
    return Splitter(ends, lambda: ShortTexts(LIST_LINE_BYTES), LIST_LINE_BYTES)


def searched_lines(ends: array[int]) -> Splitter:
    """Return a splitter for lines of which a search takes the words that it indexes."""

    def short() -> ShortTexts:
        return ShortTexts(LINE_BYTES_MAX, SEARCH_TEXT_BYTES, SEARCH_END_BYTES)

    return Splitter(ends, short, LIST_LINE_BYTES)


def short_document(files: Files, fd: int, size: int) -> bytes | None:
    """Return a document without the ends of its long texts; None for one that is too long even so."""
    document = ShortTexts(AGENT_LIST_DOCUMENT_BYTES)
    for chunk in chunks_of(files, fd, 0, size):
        document.add(chunk)
    return document.value()


def few(lines: list[bytes]) -> list[bytes]:
    """Return the lines of a piece that are not blank; of very many, those at both ends."""
    found = [line for line in lines if not is_blank(line)]
    del found[AGENT_LIST_LINES : max(AGENT_LIST_LINES, len(found) - AGENT_LIST_LINES)]
    return found


def _wanted(lines: list[bytes], agent: AgentFormatName | None) -> list[bytes]:
    """Return the last lines as far as an answer, and of the lines before those that state facts."""
    left, at = AGENT_LIST_STEP_BYTES, len(lines)
    has_answer = False
    while at and (left > 0 or not has_answer):
        at -= 1
        left -= len(lines[at])
        has_answer = has_answer or any(word in lines[at] for word in _ANSWERS)
    words = () if agent is None else _FACTS[agent]
    facts = [line for line in lines[:at] if _states_fact(line, words)]
    return facts + lines[at:]


def _states_fact(line: bytes, words: tuple[bytes, ...]) -> bool:
    return len(line) <= LINE_HEAD_BYTES and any(word in line for word in words)
