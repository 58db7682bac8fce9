"""Changes of sessions from the keyboard: branch, fork, merge, label, export.

Law: a change asks for its parameters first, then makes one call. No change overwrites a file or
removes an entry.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from textual.binding import Binding, BindingType

from sessiond.browse.advice import advice
from sessiond.browse.dialogs import Question, SessionChoice
from sessiond.browse.view import View
from sessiond.browse.words import line_of, short_id
from sessiond_client import Client, RpcError

UNTIL_SILENT: Final = None
"""Time limit of a call that may last: none, as long as the daemon answers pings."""
# Formats of an export by the suffix of the file.
_FORMATS: Final = {".md": "markdown", ".html": "html", ".json": "json", ".jsonl": "native"}


class Target(NamedTuple):
    """Session that a key acts on, and an entry of the session."""

    session_id: str
    entry_id: str | None
    label: str | None = None
    preview: str = ""

    def named(self) -> str:
        """Return the words that name the target to a person."""
        if self.entry_id is None:
            return f"session {short_id(self.session_id)}"
        words = f" “{line_of(self.preview, 40)}”" if self.preview else ""
        return f"entry {short_id(self.entry_id)}{words}"


class Acting(View):
    """A view with a target, and the keys that act on the target."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("B,b", "branch", "branch", show=False),
        Binding("F,f", "fork", "fork", show=False),
        Binding("M,m", "merge", "merge", show=False),
        Binding("L,l", "label", "label", show=False),
        Binding("E,e", "export", "export", show=False),
        Binding("R,r", "rebase", "rebase", show=False),
    ]

    @abstractmethod
    def target(self) -> Target | None:
        """Return what the keys act on now; None if there is nothing."""

    def reload(self) -> None:
        """Show the outcome of a change, in a view that gets no events."""
        return

    def action_branch(self) -> None:
        """Move a head to the entry, or make a head there."""
        self._change(self._branch, needs_entry=True)

    def action_fork(self) -> None:
        """Make a session of the path to the entry."""
        self.make_copy("fork")

    def make_copy(self, word: str) -> None:
        """Make a session of the path to the target; `word` says what a person calls that."""
        self._change(partial(self._fork, word=word))

    def action_merge(self) -> None:
        """Bring the work of another session into this session."""
        self._change(self._merge)

    def action_label(self) -> None:
        """Label the entry, or clear its label."""
        self._change(self._label, needs_entry=True)

    def action_export(self) -> None:
        """Write the session to a new file."""
        self._change(self._export)

    def action_rebase(self) -> None:
        """Say where a rebase begins."""
        self.say("a rebase begins in a list or a tree: go back with Esc, then press R")

    def _change(
        self,
        make: Callable[[Client, Target], Awaitable[None]],
        *,
        needs_entry: bool = False,
    ) -> None:
        target = self.target()
        if target is None or (needs_entry and target.entry_id is None):
            self.say("put the cursor on an entry first: Enter opens a session")
            return

        self.say("")

        async def change(client: Client) -> None:
            await make(client, target)

        self.act(change)

    async def _ask(self, question: str, hint: str, value: str = "") -> str | None:
        return await self.browser.ask(Question(question, hint, value))

    async def _branch(self, client: Client, target: Target) -> None:
        hint = "Head to put there: main is where a session goes on; a new name makes a head."
        head = await self._ask(f"Branch at {target.named()}", hint, "main")
        if head is None:
            return
        options: dict[str, Any] = {"head": head.strip() or "main"}
        moved = await client.branch(target.session_id, target.entry_id, **options)
        self.browser.say(f"head {moved.head} stands at {short_id(moved.leaf_id or 'the start')}")

    async def _fork(self, client: Client, target: Target, word: str) -> None:
        hint = "A new session of the path to here. Title of the new session (may be empty):"
        title = await self._ask(f"{word.capitalize()} {target.named()}", hint)
        if title is None:
            return
        options: dict[str, Any] = {"title": title} if title.strip() else {}
        if target.entry_id is not None:
            options["at"] = target.entry_id
        made = await client.fork(target.session_id, timeout=UNTIL_SILENT, **options)
        self.browser.show_tree(made.id)
        self.browser.say(f"this is the {word}, session {short_id(made.id)}; Esc goes back")

    async def _merge(self, client: Client, target: Target) -> None:
        question = "Merge which session into this one?"
        other = await self.browser.ask(SessionChoice(question, target.session_id))
        if other is None:
            return
        hint = "Text of the merge. Leave it empty to have a configured program or client write it."
        text = await self._ask(f"Merge session {short_id(other.id)} into this one", hint)
        if text is None:
            return
        self.browser.say("merging …")
        merged = await client.merge(
            target.session_id, other.id, text.strip() or None, timeout=UNTIL_SILENT
        )
        self.browser.say(f"merged: head main stands at {short_id(merged.leaf_id or '')}")

    async def _label(self, client: Client, target: Target) -> None:
        assert target.entry_id is not None
        hint = "An empty label takes the label away."
        label = await self._ask(f"Label {target.named()}", hint, target.label or "")
        if label is None:
            return
        await client.label(target.session_id, target.entry_id, label.strip() or None)
        self.browser.say("labelled" if label.strip() else "the label is gone")
        self.reload()

    async def _export(self, client: Client, target: Target) -> None:
        name = f"{short_id(target.session_id)}.jsonl"
        hint = "File: .jsonl for programs; .md, .html or .json to read. Existing files stay as they are."
        while True:
            file = await self._ask(f"Export session {short_id(target.session_id)}", hint, name)
            if not file or not file.strip():
                return
            path = _path_of(file)
            options: dict[str, Any] = {"format": _FORMATS.get(path.suffix.lower(), "native")}
            try:
                done = await client.export(
                    target.session_id, path=str(path), timeout=UNTIL_SILENT, **options
                )
            except RpcError as error:
                if error.kind != "storage_error":
                    raise
                name, hint = file, advice(error)
                continue
            self.browser.say(f"exported to {done.path}")
            return


def _path_of(file: str) -> Path:
    """Return the absolute path: the daemon's working folder is another one."""
    return Path(file.strip()).expanduser().absolute()
