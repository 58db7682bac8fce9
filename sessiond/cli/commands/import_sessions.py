"""`sessiond import`: copy session files into the profile."""

from __future__ import annotations

import hashlib
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Raw

from sessiond import typed
from sessiond.cli.arguments import FOLDER, absolute, standard_input
from sessiond.cli.connect.conversation import ask_long, connected, read
from sessiond.cli.offline.found_files import Found, found_files
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.failure import Failure
from sessiond.cli.ui.failures import explain, in_place, report
from sessiond.cli.ui.output import emit_raw, note, say
from sessiond.cli.ui.progress import Steps
from sessiond.daemon.exit_status import Status
from sessiond.model.formats import AGENT_FORMATS, FORMATS, WHOLE_FORMATS
from sessiond.visible import counted

if TYPE_CHECKING:
    from sessiond_client import BlockingClient

_SKIPS_SHOWN = 20
# What an older daemon does not say.
_NULL = Raw(b"null")
_EMPTY = Raw(b"[]")
_NAMES = ("file", "source_id")
_REASONS = {"id": "its id and its messages", "content": "its lines"}


@click.command(
    "import",
    cls=Command,
    examples=(
        "sessiond import session.jsonl",
        "sessiond import --cwd . - <session.jsonl",
        "sessiond import --dry-run .",
    ),
)
@shared_options
@click.option(
    "--format",
    type=click.Choice(["auto", *FORMATS, *WHOLE_FORMATS, *AGENT_FORMATS]),
    default="auto",
    show_default=True,
    help="Format of the files; auto finds the format out.",
)
@click.option("--cwd", type=FOLDER, help="Project of the copies.  [default: as in the file]")
@click.option("--dry-run", is_flag=True, help="Only say what would be imported.")
@click.option(
    "--if-exists",
    type=click.Choice(["copy", "skip"]),
    help="What to do with a session that is here already."
    "  [default: skip in a folder, copy for a FILE]",
)
@click.option(
    "--source-id", metavar="ID", help="One session of a store of opencode.  [default: all]"
)
@click.option(
    "--move-to",
    type=click.Choice(["database", "files"]),
    help="Move the whole profile instead: into the configured database, or back.",
)
@click.option(
    "--on-conflict",
    type=click.Choice(["keep-source", "keep-target"]),
    help="With --move-to: the side whose values stay where a namespace has values on both sides."
    "  [default: both stay]",
)
@click.argument("files", metavar="FILE...", nargs=-1, type=click.Path(allow_dash=True))
@click.pass_context
def import_sessions(
    ctx: click.Context, /, shared: Shared, files: tuple[str, ...], **params: Any
) -> None:
    """Copy session files in under new ids, and print each id; "-" is standard input.

    A folder stands for the files *.jsonl and *.jsonl.zst in it, at any depth, and for the sessions *.json of Nova
    and Construct, and a store of opencode (opencode.db, or its older folder "storage") for its
    sessions, those of subagents behind their parents. The files are read, never written. A file that cannot be imported does not stop the
    next ones; the exit status is then 1, as of a folder without a session. Lines that do not parse are left out and named; a native file
    must have no such line inside. A file whose session is here already is skipped, if it comes from a folder or
    with --if-exists skip: a session with the id of the file's session and all of its messages, or with the same
    lines. A file that has grown since its last import is imported again. With --json: {"imported":
    [{"file", "session", "report", "grown_from"}], "skipped": [{"file", "twins", "reason"}],
    "failed": [{"file", "error"}]}; of a store, each with the "source_id".

    With --move-to and no FILE, all sessions, values and secrets of the profile move into the database
    that `store` in the configuration names, or from there back into files, under their ids. No daemon
    may serve the profile. The old copy of each moved session goes to the trash of the store that
    it came from. A move that was interrupted goes on where it was; a session that another daemon has deleted meanwhile goes
    to the trash. A namespace with other values on both sides stays on both, unless --on-conflict says which side
    stays; the values of the other side are put aside in the profile. With --json: {"sessions", "states", "secrets", "failed": [{"what",
    "name", "kind", "message"}], "noted": [{"what", "name", "message"}], "dry_run"}.
    """
    move_to, on_conflict = params.pop("move_to"), params.pop("on_conflict")
    _require_one_task(files, move_to, on_conflict)
    if move_to is not None:
        from sessiond.cli.offline.moving import move

        ctx.exit(move(shared, move_to, on_conflict, dry_run=params["dry_run"]))
    outcome = _Outcome(shared.as_json, is_dry=params["dry_run"])
    source_id = params.pop("source_id")
    sources = found_files(files, source_id)
    steps = Steps("import")
    with connected(shared) as client:
        for done, source in enumerate(sources):
            if len(sources) > 1:
                steps.report(done, len(sources), "files")
            skips = (params["if_exists"] or ("skip" if source.in_folder else "copy")) == "skip"
            wanted = params | {"if_exists": "skip" if skips else "copy"}
            try:
                result = _import(client, source, wanted)
            except Exception as error:
                steps.end()
                if not outcome.fails(source, error):
                    raise
            else:
                steps.end()
                outcome.take(source, result, skips=skips)
    if not sources:
        note(
            "no session is there, neither *.jsonl nor a document of Nova or Construct:"
            " name a file, or the folder in which a program keeps its sessions"
        )
    outcome.say()
    if outcome.failed or not sources:
        ctx.exit(Status.FAILED)


def _require_one_task(files: tuple[str, ...], move_to: str | None, on_conflict: str | None) -> None:
    """Raise UsageError for options of an import together with those of a move."""
    if bool(files) == bool(move_to):
        raise click.UsageError("name files to import, or use --move-to alone")
    if on_conflict is not None and move_to is None:
        raise click.UsageError("--on-conflict goes together with --move-to alone")


class _Outcome:
    """Outcome of an import, told to people at once and to programs at the end."""

    def __init__(self, as_json: bool, *, is_dry: bool) -> None:  # noqa: FBT001
        self.failed: list[dict[str, Any]] = []
        self._imported: list[dict[str, Raw]] = []
        self._skipped: list[dict[str, Raw]] = []
        self._planned_files: dict[str, tuple[str, int]] = {}
        self._as_json = as_json
        self._is_dry = is_dry

    def take(self, source: Found, result: dict[str, Raw], *, skips: bool) -> None:
        """Note a file that was read; `skips` if sessions that are here already are skipped."""
        file, named = _label(source), _named(source)
        there = read(result.get("same_as", _EMPTY))
        reason = read(result.get("same_by", _NULL))
        if skips and not there and self._is_dry:
            # A file of this run would be here already, if this run imported.
            there, reason = self._planned(source, read(result["session"]))
        if there and skips:
            self._skipped.append(named | {"twins": _raw(there), "reason": _raw(reason)})
            return
        self._imported.append(named | result)
        if self._as_json:
            return
        # The session of a dry run has an id that no session will have.
        say(file if self._is_dry else read(result["session"])["id"])
        grown = read(result.get("grown_from", _EMPTY))
        twins = [one for one in read(result["twins"]) if one not in grown]
        if grown:
            note(f"{file} has grown: {', '.join(grown)} has a part of it")
        if twins:
            note(f"{', '.join(twins)} has an equal beginning")
        _note_problems(file, read(result["report"]))

    def _planned(self, source: Found, session: dict[str, Any]) -> tuple[list[str], str | None]:
        """Return the file of this run that has the same session, and why; note the file if there is none."""
        header_id, size = session["lineage"].get("header_id"), session["seq"]
        key = f"id {header_id}" if header_id is not None else f"content {_digest(source)}"
        first, most = self._planned_files.get(key, (_label(source), 0))
        if size > most:
            self._planned_files[key] = _label(source), size
            return [], None
        return [first], "content" if header_id is None else "id"

    def fails(self, source: Found, error: Exception) -> bool:
        """Note a file that could not be imported; return whether the next files may do better."""
        file = source.name
        failure = explain(error)
        # Without a daemon the next files would fail too.
        if failure is None or failure.status is Status.NO_DAEMON:
            return False
        if failure.facts.get("kind") == "session_corrupt":
            # No session was made, so the advice names the file.
            quoted = quote(file)
            then = f"see `sessiond verify {quoted}`, `sessiond dump {quoted}`"
            failure = Failure(failure.what, then, failure.status, failure.facts)
        report(failure.about(_label(source)), as_json=False)
        named = {} if source.source_id is None else {"source_id": source.source_id}
        self.failed.append({"file": file, **named, "error": in_place(failure).body()})
        return True

    def say(self) -> None:
        """Print the outcome for programs, or its last lines for people."""
        if self._as_json:
            body = {"imported": self._imported, "skipped": self._skipped, "failed": self.failed}
            emit_raw(msgspec.json.encode(body))
            return
        for one in self._skipped[:_SKIPS_SHOWN]:
            said = " ".join(read(one[name]) for name in _NAMES if name in one)
            why = _REASONS[read(one["reason"])]
            there = ", ".join(read(one["twins"]))
            note(f"skipped {said}: its session is here already, {there} has {why}")
        if len(self._skipped) > _SKIPS_SHOWN:
            note(f"{counted(len(self._skipped), 'file')} were skipped in all; --json names them")
        if self._is_dry:
            note("nothing was imported: this was a dry run")


def _label(source: Found) -> str:
    """Return the name of a file; of a session of a store, with the session's id."""
    return source.name if source.source_id is None else f"{source.name} {source.source_id}"


def _digest(source: Found) -> str:
    """Return a digest of a file; for another source a word that no other source has."""
    try:
        with Path(source.name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return _label(source)


def _named(source: Found) -> dict[str, Raw]:
    named = {"file": _raw(source.name)}
    return named if source.source_id is None else named | {"source_id": _raw(source.source_id)}


def _import(client: BlockingClient, source: Found, params: dict[str, Any]) -> dict[str, Raw]:
    file = source.name
    content = {"path": absolute(file)} if file != "-" else {"content": standard_input()}
    if source.source_id is not None:
        content["source_id"] = source.source_id
    result = ask_long(client, "session/import", **params, **content)
    return typed.decode(result, dict[str, Raw])


def _note_problems(file: str, report: dict[str, Any]) -> None:
    for problem in report["problems"]:
        note(f"line {problem['line']}: {problem['kind']}: {problem['detail']}")
    more = (report["problem_count"] or 0) - len(report["problems"])
    if more:
        note(f"and {more} more")
    if report["dropped"]:
        note(f"{counted(report['dropped'], 'line')} of {file} could not be imported")


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


COMMAND = import_sessions
