"""Contents that a copy takes into its messages, and contents that are too large for one.

Claude Code keeps a large output of a tool in a file beside its session, and the result has only the
beginning. A copy has no such file, so the output goes into the result, up to a limit for each result and
for the copy. An image that no provider would take becomes a text that says so.

Law: an output is taken from the session's own folder by its name alone, wherever the path leads that
the result states, and through no link. A file that is missing says nothing, and the report names it.
"""

from __future__ import annotations

import codecs
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

from sessiond.dialects.agents.claude_messages import OUTPUT_FILE
from sessiond.dialects.lenient_json import array, items, join, lenient, text
from sessiond.errors import SessiondError
from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.limits import AGENT_IMAGE_CHARS_MAX, AGENT_OUTPUT_BYTES_MAX, AGENT_OUTPUTS_BYTES_MAX
from sessiond.model.entries import Compaction, Message
from sessiond.service.sources.agents.source import Output, Report
from sessiond.service.sources.agents.writing import Step

_FOLDER: Final = "tool-results"
_MARK: Final = b'"%b"' % OUTPUT_FILE.encode()
_ENCODED: Final = rb"[\\\x80-\xff]"
# The words around the beginning that a result shows of an output in a file.
_SHOWN: Final = ("<persisted-output>", "</persisted-output>")
_NO_NAMES: Final = frozenset({"", ".", ".."})
# Base64 has four characters for three bytes.
_CHARS, _BYTES = 4, 3


def outputs_beside(path: Path, files: Files) -> Callable[[str, int], Output | None]:
    """Return the reader of the outputs that belong to the session of a file.

    The reader takes a name and a number of bytes, and waits for the disk.
    """
    folder = _folder_of(path)

    def read(name: str, limit: int) -> Output | None:
        if name in _NO_NAMES or "/" in name or "\0" in name:
            return None
        try:
            if not all(stat.S_ISDIR(files.lstat(one).st_mode) for one in (folder.parent, folder)):
                return None
            if not stat.S_ISREG(files.lstat(folder / name).st_mode):
                return None
            fd = open_regular(files, folder / name)
        except (OSError, SessiondError):
            return None
        try:
            return Output(files.pread(fd, limit, 0), check_regular(files, fd))
        except OSError:
            return None
        finally:
            close_quietly(files, fd)

    return read


def _folder_of(path: Path) -> Path:
    """Return the folder of a session's outputs; a subagent's are those of the session that began it."""
    above = [one for one in path.parents if one.name == "subagents"]
    return (above[-1].parent if above else path.with_suffix("")) / _FOLDER


class _Budget(Struct):
    """The bytes of outputs that a copy may still take."""

    left: int


def inlined(
    steps: Iterable[Step], report: Report, read: Callable[[str, int], Output | None] | None
) -> Iterator[Step]:
    """Yield steps with outputs in their results, and without images that are too large."""
    budget = _Budget(AGENT_OUTPUTS_BYTES_MAX)
    for step in steps:
        inlining = _Inlining(step.line, report, read, budget)
        for entry in step.entries:
            if isinstance(entry, Message):
                entry.message = inlining.message(entry.message)
            elif isinstance(entry, Compaction) and isinstance(entry.messages, list):
                entry.messages = [inlining.message(one) for one in entry.messages]
            del entry
        yield step
        # A long line goes before the next one comes.
        del step


class _Inlining(Struct):
    """The work on the messages of one line."""

    line: int
    report: Report
    read: Callable[[str, int], Output | None] | None
    budget: _Budget

    def message(self, said: Raw) -> Raw:
        """Return a message with its output, and without images that are too large."""
        # A long message is looked through where it is.
        if len(said) <= AGENT_IMAGE_CHARS_MAX and re.search(_MARK, memoryview(said)) is None:
            return said
        members = lenient(said)
        name = text(members.pop(OUTPUT_FILE, None))
        blocks = items(members.get("content", b""))
        if blocks is not None:
            members["content"] = array(map(self._without_large_image, blocks))
        if name is not None:
            self._take_output(members, name)
        return Raw(join(members))

    def _without_large_image(self, block: Raw) -> Raw:
        if len(block) <= AGENT_IMAGE_CHARS_MAX:
            return block
        members = lenient(block)
        kind = text(members.get("mimeType")) or "image"
        match text(members.get("type")):
            case "image":
                chars = _chars_in(members.get("data"))
            case "image_url":
                chars = _chars_in(lenient(members.get("image_url", b"")).get("url"))
            case _:
                return block
        what = f"{kind}, {chars * _BYTES // _CHARS:,} bytes"
        self._note(f"left out: an image that is too large ({what})")
        return _encoded({"type": "text", "text": f"[image left out: {what}]"})

    def _take_output(self, members: dict[str, Raw], name: str) -> None:
        """Put the output of a file into the text of a result."""
        # The beginning that the result shows says more than a few bytes would.
        limit = AGENT_OUTPUT_BYTES_MAX if self.budget.left >= AGENT_OUTPUT_BYTES_MAX else 0
        output = None if self.read is None else self.read(name, limit)
        if output is None:
            self._note(f"left out: the output in {name}, which is not there")
            return
        # Half a character at the cut is left out.
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        shown = decode(output.data, final=len(output.data) == output.size)
        rest = output.size - len(output.data)
        if shown.strip():
            self.budget.left -= len(output.data)
            more = f"\n[{rest:,} more bytes left out]" if rest else ""
            members["content"] = _with_output(members.get("content", Raw(b'""')), shown + more)
        if rest:
            self._note(f"left out: {rest:,} of {output.size:,} bytes of the output in {name}")

    def _note(self, detail: str) -> None:
        self.report.add(self.line, "not_copied", detail)


def _chars_in(said: Raw | None) -> int:
    """Return the number of characters of a text; 0 for any other value."""
    if said is None:
        return 0
    if bytes(memoryview(said)[:1]) == b'"' and re.search(_ENCODED, memoryview(said)) is None:
        # No copy is made of the data of an image.
        return len(said) - len(b'""')
    return len(text(said) or "")


def _with_output(content: Raw, output: str) -> Raw:
    """Return a content in which an output stands where its beginning was shown, else at the end."""
    blocks = items(content)
    if blocks is None:
        return _encoded(_shown_in(text(content) or "", output) or _below(text(content), output))
    for at, block in enumerate(blocks):
        members = lenient(block)
        shown = _shown_in(text(members.get("text")) or "", output)
        if shown is not None:
            blocks[at] = Raw(join(members | {"text": _encoded(shown)}))
            return array(blocks)
    return array([*blocks, _encoded({"type": "text", "text": output})])


def _shown_in(said: str, output: str) -> str | None:
    begin, end = _SHOWN
    before, has_begun, rest = said.partition(begin)
    _, has_ended, behind = rest.rpartition(end)
    return f"{before}{output}{behind}" if has_begun and has_ended else None


def _below(said: str | None, output: str) -> str:
    return f"{said}\n{output}" if said else output


def _encoded(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))
