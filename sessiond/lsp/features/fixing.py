"""Code actions: fixes of problems, and the commands of an entry.

Law: a fix calls the daemon and never edits the text, since an editor that saves its text would
overwrite what other programs append. A problem without a fix says why, in an action that cannot be
chosen, where the editor shows such actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lsprotocol import types

from sessiond.lsp.features.desk import Desk, Refusal, View
from sessiond.lsp.features.offers import REPAIR, commands_of, first_compactable
from sessiond.lsp.findings import MISSING_RESULT
from sessiond.lsp.places import Row
from sessiond.visible import counted, repaired

OPTIONS: Final = types.CodeActionOptions(
    code_action_kinds=[types.CodeActionKind.QuickFix, types.CodeActionKind.Refactor]
)
# Problems that a repair of a native file takes away.
_MENDED: Final = frozenset({"bad_line", "torn_tail", "incomplete_atom", "orphan"})
_INTERRUPTED: Final = b"[error:TOOL_INTERRUPTED]"
_KEPT: Final = "nothing is taken out of the log: "
# Problems that no call of the daemon takes away, and what sessiond makes of each.
_NO_FIX: Final[Mapping[str, str]] = {
    "damaged_line": f"{_KEPT}the whole records of the line are shown",
    "duplicate_id": f"{_KEPT}both entries stay, and the id means the later one",
    "unknown_target": f"{_KEPT}the line does nothing",
    "first_kept_off_path": f"{_KEPT}the compaction keeps nothing from before",
    "broken_atom": f"{_KEPT}the entries that are there count",
    "bad_time": f"{_KEPT}the entry has no time",
    "other_spelling": f"{_KEPT}the entry is shown as a root",
    "bad_state": f"{_KEPT}the entry changes no state",
    "long_line": f"{_KEPT}the line is served to clients that can take it",
    "other_id": "the id in the name of the file counts",
}
_OTHER_PROGRAM: Final = (
    "the file belongs to another program: sessiond takes no line out of it, and gives no entry of it"
    " another parent"
)


async def answer(desk: Desk, params: types.CodeActionParams) -> list[types.CodeAction] | None:
    """Return the fixes for problems, and the commands of the entry where a menu was asked for."""
    view = await desk.view(params.text_document.uri)
    if view is None:
        return None
    context = params.context
    found: list[types.CodeAction] = []
    if _wants(context.only, types.CodeActionKind.QuickFix):
        found += fixes(view, context.diagnostics, shows_disabled=desk.window.shows_disabled)
    is_menu = context.trigger_kind is not types.CodeActionTriggerKind.Automatic
    if is_menu and _wants(context.only, types.CodeActionKind.Refactor):
        found += _entry_actions(view, params.range.start.line)
    return found


def fixes(
    view: View, problems: Sequence[types.Diagnostic], *, shows_disabled: bool
) -> Iterator[types.CodeAction]:
    """Yield a fix for each problem that has one, and with `shows_disabled` reasons for the rest."""
    for problem in problems:
        if problem.source != "sessiond" or not isinstance(problem.code, str):
            continue
        command, reason = _fix(view, problem.code, problem.range.start.line)
        if command is not None:
            yield types.CodeAction(
                command.title,
                types.CodeActionKind.QuickFix,
                [problem],
                is_preferred=True,
                command=command,
            )
        elif reason is not None and shows_disabled:
            yield types.CodeAction(
                "no repair",
                types.CodeActionKind.QuickFix,
                [problem],
                disabled=types.CodeActionDisabled(reason),
            )


def _fix(view: View, code: str, line: int) -> tuple[types.Command | None, str | None]:
    """Return the command that takes a problem away, or the reason why there is none."""
    if code in _MENDED or (code == "read_only" and view.info.get("read_only_reason") == "bad_line"):
        if not view.is_native:
            return None, _OTHER_PROGRAM
        title = (
            "repair the file: leave out what does not parse, put each entry below a parent, keep the old"
            " file in the trash"
        )
        return types.Command(title, REPAIR, arguments=[view.uri]), None
    if code == MISSING_RESULT:
        node = view.places.nodes.get(line)
        if node is None or not view.is_writable:
            return None, _OTHER_PROGRAM if node is not None else None
        title = "append a result for each open call: interrupted"
        return types.Command(title, REPAIR, arguments=[view.uri, node.id]), None
    return None, _NO_FIX.get(code)


def _entry_actions(view: View, line: int) -> Iterator[types.CodeAction]:
    node = view.places.nodes.get(line)
    if node is None:
        return
    for command in commands_of(view, Row(line, node), first_compactable(view)):
        yield types.CodeAction(command.title, types.CodeActionKind.Refactor, command=command)


def _wants(only: Sequence[str] | None, kind: types.CodeActionKind) -> bool:
    return only is None or any(kind.value == one or not one for one in only)


async def repair(desk: Desk, view: View, entry_id: str | None) -> Any:
    """Repair the file, or give the open calls of an entry results.

    Raises Refusal, Cancelled and SessiondClientError.
    """
    if entry_id is not None:
        return await _give_results(desk, view, entry_id)
    async with desk.window.work("repairing the file") as work:
        done = await view.client.repair(
            view.session_id, dry_run=False, on_progress=work.report, timeout=None
        )
    if not done.repaired:
        desk.window.tell(f"{done.reason}; if the editor shows such a line, read the file again")
        return {"repaired": False, "reason": done.reason}
    dropped = counted(done.dropped, "line") if done.dropped else ""
    what = repaired(dropped, done.recovered or 0, done.reparented or 0, done.moved or 0)
    desk.window.tell(f"{what}, the old file is {done.backup}; read the file again")
    return {"repaired": True, "dropped_lines": done.dropped_lines, "backup": done.backup}


async def _give_results(desk: Desk, view: View, entry_id: str) -> Any:
    # The daemon spells a result as the call is spelled.
    context = await view.client.build_context(view.session_id, repair=True)
    results = [
        message
        for message, source in zip(context.raw_messages, context.sources, strict=True)
        if source == entry_id and _INTERRUPTED in bytes(message)
    ]
    if not results:
        raise Refusal(
            "each call of this entry has a result, or a compaction has replaced the entry"
        )
    stored = await view.client.append(
        view.session_id,
        entries=[{"type": "message", "message": message} for message in results],
        expected={"leaf_id": context.leaf_id},
    )
    desk.window.tell(f"{counted(len(results), 'result')} appended")
    return {"leaf_id": stored.leaf_id, "results": len(results)}
