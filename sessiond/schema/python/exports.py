"""The names that the client's package exports."""

from __future__ import annotations

from typing import Final

from sessiond.schema.python.layout import all_names, braced, header, imports

_PACKAGE: Final = "sessiond_client"

# The exported names by the modules that define them.
_EXPORTS: Final = {
    "aio": "CatalogSubscription Client Offer StateSubscription Subscription connect",
    "blocking": (
        "BlockingCatalogSubscription BlockingClient BlockingOffer BlockingStateSubscription"
        " BlockingSubscription connect_blocking"
    ),
    "errors": (
        "ClientClosed ConnectionLost LeaseLost ProtocolViolation RpcError SessiondClientError"
        " Timeout"
    ),
    "events": (
        "CatalogChanged Changed Cursor Departure EntryEvent Event Flushed Lagged Notice Presence Present"
        " Replaced Signal StateChanged Synced"
    ),
    "generated.requests": "BeforeBranch BeforeCompact BeforeFork BeforeSwitch Summarize",
    "offering": "Asked",
    "peer": "ForeignSocket",
    "task_leases": "HeldLease",
    "thread_leases": "BlockingHeldLease",
    "versions": "difference",
}


def exports_text() -> str:
    """Return the module that says where each exported name is defined."""
    homes = {name: home for home, names in _EXPORTS.items() for name in names.split()}
    checked = "".join(
        imports(f"{_PACKAGE}.{home}", names.split(), "    ") for home, names in _EXPORTS.items()
    )
    rows = braced("", [f'"{name}": "{homes[name]}"' for name in sorted(homes)])
    return "\n".join(
        [
            header("The exported names of the package, each with the module that defines it."),
            "from typing import TYPE_CHECKING, Final\n",
            f"if TYPE_CHECKING:\n{checked}",
            all_names(homes),
            f"HOMES: Final[dict[str, str]] = {rows}",
            "",
        ]
    )
