"""initialize: exchange identity and capabilities of client and daemon. Optional."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond import __version__, limits, typed
from sessiond.build import BUILD
from sessiond.dialects import DIALECTS
from sessiond.errors import InvalidParams, PermissionDenied, VersionUnsupported
from sessiond.model.requests import CLIENT_REQUESTS, HOOKS, PURPOSES, Hook, Purpose
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Access, Client

PROTOCOL_VERSIONS = ("1.0",)
# In rising order: each access includes the accesses before it.
_RANKS: Final = ("status", "read", "write")


class InitializeParams(Params, forbid_unknown_fields=False):
    """Identity and capabilities of a client; the params of an LSP client are accepted too."""

    protocol_versions: list[str] | UnsetType = UNSET
    client_info: Raw | UnsetType = UNSET
    client_id: Annotated[str, Meta(max_length=limits.CLIENT_ID_CHARS_MAX)] | None = None
    access: Access | UnsetType = UNSET
    capabilities: Raw | UnsetType = UNSET


class ServerInfo(Struct, frozen=True):
    """Name, version and build id of the answering program."""

    name: str
    version: str
    build: str


class Limits(Struct, frozen=True):
    """Limits that a client should know; sizes in bytes."""

    max_frame_bytes: int
    max_event_bytes: int
    max_result_bytes: int
    max_batch_members: int
    max_append_entries: int
    max_page_rows: int
    max_nesting: int
    max_heads: int
    max_waiting_requests: int


class Capabilities(Struct, frozen=True):
    """Parts of the protocol that this daemon has; `methods` are the groups before the slash."""

    dialects: list[str]
    methods: list[str]
    heads: bool
    leases: bool
    subscriptions: bool
    signals: bool
    presence: bool
    progress: bool
    summarize: bool
    summarize_purposes: list[str]
    hooks: list[str]
    catalog: bool


class InitializeResult(Struct, frozen=True):
    """Agreed protocol version, and what this daemon offers."""

    protocol_version: str
    server_info: ServerInfo
    instance_id: str
    capabilities: Capabilities
    limits: Limits


class _Offered(Struct):
    """Services that a client offers the daemon, among its other capabilities."""

    summarize: bool | list[str] = False
    hooks: bool | list[str] = False

    def purposes(self) -> frozenset[Purpose]:
        """Return the purposes that this daemon knows; true is what clients offered before lists."""
        names = ("compaction",) if self.summarize is True else self.summarize or ()
        return frozenset(purpose for purpose in PURPOSES if purpose in names)

    def wanted(self) -> frozenset[Hook]:
        """Return the offered hooks that this daemon knows.

        Hooks of another version are left out: the answer's `hooks` tells a client which ones exist.
        """
        names = HOOKS if self.hooks is True else self.hooks or ()
        return frozenset(hook for hook in HOOKS if hook in names)


class _Named(Struct):
    name: str | None = None


def handle(client: Client, params: InitializeParams, _call: Call[Client]) -> InitializeResult:
    """Agree on a protocol version and record what the client offers."""
    versions = params.protocol_versions
    version = PROTOCOL_VERSIONS[0]
    if not isinstance(versions, UnsetType) and version not in versions:
        raise VersionUnsupported(
            f"this daemon speaks protocol version {', '.join(PROTOCOL_VERSIONS)} only",
            supported_versions=list(PROTOCOL_VERSIONS),
        )
    offered = _offered(params)
    hooks, purposes = offered.wanted(), offered.purposes()
    access = client.access if isinstance(params.access, UnsetType) else params.access
    if _RANKS.index(access) > _RANKS.index(client.access):
        raise PermissionDenied(
            "a connection can only lower its access: open a new connection",
            need=access,
        )
    if (purposes or hooks) and access != "write":
        raise PermissionDenied(
            "summarize and hooks decide what is stored: offer them on a connection with access"
            " write",
            need="write",
        )
    client.client_id = params.client_id
    client.name = _name(params.client_info)
    client.access = access
    client.summarizes = purposes
    client.service.hooks.offer(client, hooks)
    return InitializeResult(
        protocol_version=version,
        server_info=ServerInfo("sessiond", __version__, BUILD),
        instance_id=client.service.instance_id,
        capabilities=_capabilities(),
        limits=server_limits(),
    )


def server_limits() -> Limits:
    """Return the limits in force."""
    return Limits(
        max_frame_bytes=limits.FRAME_BYTES_MAX,
        max_event_bytes=limits.EVENT_BYTES_MAX,
        max_result_bytes=limits.RESULT_BYTES_MAX,
        max_batch_members=limits.BATCH_MEMBERS_MAX,
        max_append_entries=limits.APPEND_ENTRIES_MAX,
        max_page_rows=limits.PAGE_ROWS_MAX,
        max_nesting=limits.NESTING_MAX,
        max_heads=limits.HEADS_MAX,
        max_waiting_requests=limits.IN_FLIGHT_MAX,
    )


def _capabilities() -> Capabilities:
    """Return the capabilities that this daemon's tables hold."""
    # Imported here because METHODS lists this module: an import at the top would be a cycle.
    from sessiond.methods import METHODS

    names = {method.name for method in METHODS}
    return Capabilities(
        dialects=[dialect.name for dialect in DIALECTS],
        methods=sorted({name.partition("/")[0] for name in names if "/" in name}),
        heads="session/heads" in names,
        leases="session/acquire" in names,
        subscriptions="session/subscribe" in names,
        signals="session/signal" in names,
        presence="session/presence" in names,
        progress=True,
        summarize="client/summarize" in CLIENT_REQUESTS,
        summarize_purposes=list(PURPOSES),
        hooks=list(HOOKS),
        catalog="catalog/subscribe" in names,
    )


def _offered(params: InitializeParams) -> _Offered:
    """Return the client's offer. Raise InvalidParams for capabilities of a wrong shape."""
    if isinstance(params.capabilities, UnsetType):
        return _Offered()
    try:
        return typed.decode(params.capabilities, _Offered)
    except msgspec.ValidationError as error:
        raise InvalidParams(f"capabilities: {error}", path="capabilities") from None


def _name(client_info: Raw | UnsetType) -> str | None:
    if isinstance(client_info, UnsetType):
        return None
    try:
        name = typed.decode(client_info, _Named).name
    except msgspec.ValidationError:
        return None
    return name and name[: limits.CLIENT_NAME_CHARS_MAX]


METHOD = Method(
    name="initialize",
    params=InitializeParams,
    result=InitializeResult,
    handle=handle,
    access="status",
    lenient=True,
    errors=(VersionUnsupported,),
)
