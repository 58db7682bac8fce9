"""Commands behind lenses and code actions.

Law: a command changes a session through the daemon, and never the editor's text. Arguments are a
list: the URI of the document, the id of the entry, and the command's own, which its user is asked for
if left out. A command that does nothing because its user chose nothing returns null.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec
from anyio import to_thread
from msgspec import Struct

from sessiond import typed
from sessiond.limits import LABELS_OFFERED_MAX
from sessiond.lsp.features.desk import Desk, Refusal, View
from sessiond.lsp.features.fixing import repair
from sessiond.lsp.features.offers import BRANCH, COMPACT, CONTEXT, LABEL, REPAIR
from sessiond.lsp.outline import one_line
from sessiond.visible import counted
from sessiond_client import RpcError, SessiondClientError
from sessiond_client.errors import Unanswered
from sessiond_client.options import CompactOptions

_MOVE: Final = "Move main here"
_NEW: Final = "New head here"
_CLEAR: Final = "Clear the label"
_COMPACT: Final = "Compact"
_USUAL_LABELS: Final = ("bookmark", "todo")


class AtEntry(Struct, array_like=True, forbid_unknown_fields=True):
    """Arguments of every command about an entry."""

    uri: str
    entry_id: str


class BranchArguments(AtEntry):
    """Entry, and the head that is put there."""

    head: str | None = None


class LabelArguments(AtEntry):
    """Entry and its label; an empty label clears."""

    label: str | None = None


class CompactArguments(AtEntry):
    """First entry that is kept, and the summary of everything before."""

    summary: str | None = None


class RepairArguments(Struct, array_like=True, forbid_unknown_fields=True):
    """Document; the entry whose tool calls are to get results, or none to repair the file."""

    uri: str
    entry_id: str | None = None


class Command(NamedTuple):
    """A command, the type of its arguments, and the function that carries it out."""

    name: str
    arguments: type[Struct]
    act: Callable[[Desk, Any], Awaitable[Any]]


async def run(desk: Desk, name: str, arguments: Sequence[Any] | None) -> Any:
    """Carry a command out. Raises Refusal and Cancelled."""
    command = COMMANDS.get(name)
    if command is None:
        raise Refusal(f"no command has this name; there are: {', '.join(COMMANDS)}")
    try:
        given = typed.convert(list(arguments or ()), command.arguments)
    except msgspec.ValidationError as error:
        wanted = ", ".join(command.arguments.__struct_fields__)
        raise Refusal(f"{name} takes a list of {wanted}: {error}") from error
    return await command.act(desk, given)


async def _branch(desk: Desk, given: BranchArguments) -> Any:
    view = await _writable(desk, given.uri)
    head = given.head or await _chosen_head(desk, view)
    if head is None:
        return None
    async with _told("branch"):
        moved = await view.client.branch(view.session_id, given.entry_id, head=head)
    desk.window.tell(f"{moved.head} stands {_where(view, given.entry_id)} now")
    return {"head": moved.head, "leaf_id": moved.leaf_id, "seq": moved.seq}


async def _chosen_head(desk: Desk, view: View) -> str | None:
    if not view.is_native:
        # Files of other programs have one head.
        asked = "Move the leaf here? What follows is appended below this entry"
        return "main" if await desk.window.ask(asked, [_MOVE]) else None
    asked = "Branch here: move main, or put a new head here beside it?"
    match await desk.window.ask(asked, [_MOVE, _NEW]):
        case "Move main here":
            return "main"
        case "New head here":
            taken = {head.name for head in view.snapshot.heads}
            names = (f"branch-{number}" for number in range(1, len(taken) + 2))
            return next(name for name in names if name not in taken)
        case _:
            return None


async def _label(desk: Desk, given: LabelArguments) -> Any:
    view = await _writable(desk, given.uri)
    label = given.label
    if label is None:
        choices = _labels(view, given.entry_id)
        chosen = await desk.window.ask("Label this entry", choices)
        if chosen is None:
            return None
        label = "" if chosen == _CLEAR else chosen
    async with _told("label"):
        seq = await view.client.label(view.session_id, given.entry_id, label or None)
    return {"label": label or None, "seq": seq}


def _labels(view: View, entry_id: str) -> list[str]:
    """Return the labels to choose from: the newest ones in use, and the usual ones."""
    labelled = [row.node for row in reversed(view.places.rows) if row.node.label]
    in_use = dict.fromkeys(node.label for node in labelled if node.label and one_line(node.label))
    offered = dict.fromkeys([*[*in_use][:LABELS_OFFERED_MAX], *_USUAL_LABELS])
    node = view.snapshot.places.get(entry_id)
    return [*offered, _CLEAR] if node is not None and node.label else [*offered]


async def _context(desk: Desk, given: AtEntry) -> Any:
    view = await desk.view_or_refuse(given.uri)
    async with desk.window.work("building the context") as work, _told("context"):
        body = await view.client.call_raw(
            "session/build_context",
            session_id=view.session_id,
            entry_id=given.entry_id,
            on_progress=work.report,
        )
    facts = await to_thread.run_sync(_ContextFacts.of, body)
    path = await desk.keep(f"context-{view.session_id}-{given.entry_id}", body)
    told = f"{counted(len(facts.messages), 'message')}, about {counted(facts.tokens or 0, 'token')}"
    if not await desk.window.show(path):
        desk.window.tell(f"the context {_where(view, given.entry_id)}: {told}; it is in {path}")
    return {"messages": len(facts.messages), "tokens": facts.tokens, "path": str(path)}


class _ContextFacts(Struct):
    """Figures of a context."""

    messages: list[msgspec.Raw] = []
    tokens: int | None = None

    @classmethod
    def of(cls, body: bytes) -> _ContextFacts:
        """Return the figures of an answer of the daemon."""
        return typed.decode(body, cls)


async def _compact(desk: Desk, given: CompactArguments) -> Any:
    view = await _writable(desk, given.uri)
    wanted: CompactOptions = {"first_kept_entry_id": given.entry_id, "timeout": None}
    if given.summary is not None:
        wanted["summary"] = given.summary
    else:
        asked = (
            f"Compact main up to {_where(view, given.entry_id)}? A client that offers summaries, or"
            " the configured command, writes the summary; nothing is deleted"
        )
        if await desk.window.ask(asked, [_COMPACT]) is None:
            return None
    async with desk.window.work("compacting") as work, _told("compaction"):
        wanted["on_progress"] = work.report
        made = await view.client.compact(view.session_id, **wanted)
    before, after = made.tokens_before, made.tokens_after
    figures = f": {counted(before, 'token')} before, {after:,} now" if before and after else ""
    desk.window.tell(f"compacted{figures}")
    return {"leaf_id": made.leaf_id, "tokens_before": before, "tokens_after": after}


async def _repair(desk: Desk, given: RepairArguments) -> Any:
    view = await desk.view_or_refuse(given.uri)
    async with _told("repair"):
        return await repair(desk, view, given.entry_id)


async def _writable(desk: Desk, uri: str) -> View:
    """Return a view of a session that can be changed. Raises Refusal and Cancelled."""
    view = await desk.view_or_refuse(uri)
    if view.info.get("archived"):
        raise Refusal("the session is archived: `sessiond unarchive` takes it back")
    match view.info.get("read_only_reason") if view.info.get("read_only") else None:
        case None:
            return view
        case "bad_line":
            raise Refusal("a line does not parse, so nothing is appended: repair the file first")
        case "not_writable":
            raise Refusal(
                "the daemon's user may only read the file: let that user write to it, or make a"
                " session of it by `sessiond fork` or `sessiond import`"
            )
        case _:
            raise Refusal(
                "sessiond does not write to this file: `sessiond fork` or `sessiond import` makes"
                " a session of it that can be changed"
            )


@asynccontextmanager
async def _told(what: str) -> AsyncGenerator[None]:
    """Raise the client's errors as Refusal."""
    try:
        yield
    except RpcError as error:
        raise Refusal(f"{what} refused ({error.kind}): {error.message}") from error
    except SessiondClientError as error:
        unknown = isinstance(error, Unanswered) and error.outcome_unknown
        then = "look whether it was done before you try again" if unknown else "try again"
        raise Refusal(f"{what}: {error}; {then}") from error


def _where(view: View, entry_id: str) -> str:
    line = view.places.line_of(entry_id)
    return f"at entry {entry_id[:16]}" if line is None else f"at line {line + 1}"


COMMANDS: Final = {
    command.name: command
    for command in (
        Command(BRANCH, BranchArguments, _branch),
        Command(LABEL, LabelArguments, _label),
        Command(CONTEXT, AtEntry, _context),
        Command(COMPACT, CompactArguments, _compact),
        Command(REPAIR, RepairArguments, _repair),
    )
}
