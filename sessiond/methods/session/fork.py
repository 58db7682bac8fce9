"""session/fork: make a new session from the entries of another, which stays unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from sessiond.dialects import dialect_named
from sessiond.errors import (
    EntryNotFound,
    InvalidParams,
    SessionExists,
    Vetoed,
)
from sessiond.methods._shared.common import SessionParams
from sessiond.methods._shared.copies import (
    copy_deps,
    copy_from,
    make_copy,
    own_dialect,
    root_of_copy,
)
from sessiond.methods._shared.with_hooks import hooked
from sessiond.model.formats import FormatName
from sessiond.model.ids import EntryId, SessionId
from sessiond.model.requests import BeforeFork
from sessiond.model.row import Kind
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.copying.forking import Fork, Taken, fork
from sessiond.service.copying.header import Birth
from sessiond.service.copying.source import Source
from sessiond.service.exporting.export import converted
from sessiond.service.log.session_info import SessionInfo


class ForkParams(SessionParams):
    """Entries to take; end of the path; what comes along; fields of the fork."""

    entries: Taken = "path"
    at: EntryId | UnsetType | None = UNSET
    at_message: Annotated[int, Meta(ge=0)] | None = None
    keep_messages: Annotated[int, Meta(ge=1)] | None = None
    link: Literal["parent", "none"] = "parent"
    labels: bool = True
    state: bool | None = None
    ids: Literal["keep", "renew"] | None = None
    cwd: Annotated[str, Meta(min_length=1)] | None = None
    title: str | None = None
    new_session_id: SessionId | None = None
    dialect: FormatName | None = None
    root: str | None = None
    dry_run: bool = False


class ForkResult(Struct, frozen=True):
    """New session; for a dry run the session that would be made, which has no path.

    `notes` name what the fork lacks.
    """

    session: SessionInfo
    notes: list[str] | UnsetType = UNSET


def handle(client: Client, params: ForkParams, call: Call[Client]) -> Any:
    """Run the hooks, then copy the current state in a worker thread."""
    _require_sense(params)
    if params.dry_run:
        return _copy(client, params, call)
    return hooked(
        client,
        call,
        params.session_id,
        "before_fork",
        about=lambda actor: _about(actor, params),
        go_on=lambda _supplied: _copy(client, params, call),
    )


def _about(actor: SessionActor, params: ForkParams) -> BeforeFork:
    """Return the hook's notice: the end of the path, unless the caller counts messages."""
    source = Source.of(actor)
    leaf = _axes(params, source).leaf if params.at_message is None else 0
    return BeforeFork(actor.session_id, source.session.id_of(leaf))


def _copy(client: Client, params: ForkParams, call: Call[Client]) -> Any:
    environment = client.service.environment

    def look(actor: SessionActor) -> Any:
        source = Source.of(actor)
        axes = _axes(params, source)
        birth = Birth(
            params.new_session_id or environment.new_session_id(),
            copy_deps(client, call, actor.opened),
            cwd=params.cwd,
            title=params.title,
            linked=params.link == "parent",
        )

        async def job() -> ForkResult:
            stays = params.cwd is None
            root = await root_of_copy(
                client, source.opened, params.root, params.dialect, stays=stays
            )
            dialect = params.dialect if root is None else root.kind
            session = await make_copy(
                client,
                birth.session_id,
                lambda: _lines(client, source, axes, birth, dialect),
                dry_run=params.dry_run,
                root=root,
            )
            return ForkResult(session, birth.notes or UNSET)

        return job

    return copy_from(client, call, params.session_id, look)


def _lines(
    client: Client, source: Source, axes: Fork, birth: Birth, dialect: FormatName | None
) -> Iterator[list[bytes]]:
    """Return the lines of the fork, in another dialect if one is named. Blocks."""
    chunks = fork(source, axes, birth)
    if dialect in {None, own_dialect(source.opened)}:
        return chunks
    target, spooled = dialect_named(str(dialect)), client.service.store.spooled
    progress, notes = birth.deps.progress, birth.notes
    made = converted(birth.session_id, chunks, target, progress, spooled, notes)
    return map(_lines_in, made.pieces)


def _lines_in(piece: bytes) -> list[bytes]:
    return piece.split(b"\n")[:-1]


def _require_sense(params: ForkParams) -> None:
    """Raise InvalidParams for a parameter that has no meaning beside the other ones."""
    takes_path = params.entries in {"path", "context"}
    for name, given in (
        ("at", params.at is not UNSET),
        ("at_message", params.at_message is not None),
    ):
        if given and not takes_path:
            raise InvalidParams(
                f"{name} is the end of a path; entries {params.entries} takes no path: leave"
                f" {name} out",
                path=name,
            )
    if params.at is not UNSET and params.at_message is not None:
        raise InvalidParams("send at or at_message, not both", path="at_message")
    if params.keep_messages is not None and params.entries != "context":
        raise InvalidParams("keep_messages is for entries context only", path="keep_messages")
    if params.entries == "all" and params.state is False:
        raise InvalidParams("entries all includes the state: leave state out", path="state")


def _axes(params: ForkParams, source: Source) -> Fork:
    """Return the choice of entries with its defaults filled in. Raise EntryNotFound, InvalidParams."""
    session, at = source.session, params.at
    whole = params.entries == "all"
    leaf = source.leaf
    if not isinstance(at, UnsetType):
        leaf = 0 if at is None else session.node(at)
        if at is not None and not leaf:
            raise EntryNotFound("no entry of this id in the tree", entry_id=at, path="at")
    if whole and not params.labels and Kind.LABEL not in session.rules.records:
        raise InvalidParams(
            "entries of this dialect may have labels as parents: keep the labels, or take entries"
            " path",
            path="labels",
        )
    return Fork(
        entries=params.entries,
        leaf=leaf,
        at_message=params.at_message,
        keep_messages=params.keep_messages,
        labels=params.labels,
        state=whole or bool(params.state),
        renew=params.ids == "renew" or (params.ids is None and params.entries == "context"),
    )


METHOD = Method(
    name="session/fork",
    params=ForkParams,
    result=ForkResult,
    handle=handle,
    access="write",
    errors=(
        EntryNotFound,
        SessionExists,
        Vetoed,
    ),
)
