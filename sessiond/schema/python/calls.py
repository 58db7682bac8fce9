"""Parameters and answers of the Python client's helpers, where the schema does not say them.

A new method of the protocol needs its row in `ANSWER_OF`, or its name in `NO_METHOD`.
"""

from __future__ import annotations

from typing import Final

# Methods that are no helper: what connections, subscriptions and offers say by themselves.
NO_METHOD: Final = frozenset(
    {
        *("initialize", "initialized", "shutdown", "exit"),
        *("session/subscribe", "session/unsubscribe", "catalog/subscribe", "catalog/unsubscribe"),
        *("state/subscribe", "state/unsubscribe"),
    }
)

# What a helper returns: a type, or a member of one. A method that answers `Empty` returns nothing.
ANSWER_OF: Final = {
    "server/ping": "Any",
    "server/info": "Any",
    "server/stats": "Any",
    "server/stop": "Any",
    "rpc.discover": "Any",
    "session/create": "Created",
    "session/open": "SessionInfo SessionAnswer.session",
    "session/get": "SessionInfo SessionAnswer.session",
    "session/update": "SessionInfo SessionAnswer.session",
    "session/list": "SessionPage",
    "session/resolve": "SessionInfo SessionAnswer.session",
    "session/continue_recent": "Created",
    "catalog/forest": "Forest",
    "catalog/roots": "Roots RootPage.roots",
    "state/get": "StateValue",
    "state/set": "StateStored",
    "state/delete": "StateDeleted",
    "state/all": "StateValues",
    "state/list": "StateListing",
    "state/load": "StateLoaded",
    "secret/get": "SecretValue",
    "secret/set": "SecretStored",
    "secret/delete": "SecretDeleted",
    "secret/list": "SecretNames",
    "secret/rotate": "SecretRotated",
    "state/save": "StateSaved",
    "session/append": "Appended",
    "session/branch": "Moved",
    "session/navigate": "Navigated",
    "session/plan_branch_summary": "BranchPlan",
    "session/reset": "Moved",
    "session/rewind": "Rewound",
    "session/search": "Hits SearchAnswer.hits",
    "session/label": "int SeqAnswer.seq",
    "session/labels": "LabelPage",
    "session/heads": "Heads HeadsAnswer.heads",
    "session/entry": "StoredEntry",
    "session/resolve_entries": "EntriesMeant",
    "session/entries": "EntryPage",
    "session/path": "PathPage",
    "session/tree": "TreePage",
    "session/turns": "TurnPage",
    "session/build_context": "Context",
    "session/plan_compaction": "PlannedCompaction",
    "session/compact": "Compacted",
    "session/usage": "WindowUsage",
    "session/stats": "SessionStats",
    "session/acquire": "Lease",
    "session/renew": "Lease",
    "session/signal": "Signalled",
    "session/queue": "Prompts QueueAnswer.waiting",
    "session/presence": "Everybody PresenceAnswer.clients",
    "session/decide": "Remembered",
    "session/artifact": "Remembered",
    "session/task": "TaskDone",
    "session/prune": "Pruned",
    "session/brief": "Brief",
    "session/fork": "SessionInfo SessionAnswer.session",
    "session/rebase": "SessionInfo SessionAnswer.session",
    "session/plan_merge": "MergePlan",
    "session/merge": "Merged",
    "session/flush": "FlushResult",
    "session/import": "Imported",
    "session/export": "Exported",
    "session/trash": "TrashPage",
    "session/restore": "SessionInfo SessionAnswer.session",
    "retention/run": "Retired",
    "scope/resolve": "Created",
    "scope/switch": "Switched",
    "session/verify": "Verified",
    "session/repair": "Repaired",
}

# Of a method: the helper's name, where another method has the usual one.
NAME_OF: Final = {"session/stats": "session_stats"}

# Of a method: parameters that may be left out and are given by position all the same, as they were
# when the method required them.
BY_POSITION: Final = {"session/merge": ("text",)}

# Of a method: a parameter that is given by position and not sent if another one is true.
LEFT_OUT: Final = {"session/branch": ("entry_id", "drop")}

# The type of the parameters of a method that are given by name: FooParams makes FooOptions, but for these.
OPTION_NAMES: Final = {
    "BuildContextParams": "ContextOptions",
    "LabelsParams": "PageOptions",
    "PlanBranchSummaryParams": "PlanBranchOptions",
    "ResetParams": "MoveOptions",
    "RewindParams": "MoveOptions",
}

# Types of parameters that are given as another type than the schema's.
OPTION_TYPES: Final = {
    "CompactParams.first_kept_entry_id": "str",
    "CreateParams.compaction": "Json",
    "CreateParams.metadata": "Json",
    "ExportParams.format": "str",
    "ImportParams.format": "str",
    "ListParams.tags": "list[str]",
    "RebaseParams.entry_ids": "list[str]",
    "RebaseParams.indices": "list[int]",
    "RebaseParams.squash": "dict[str, str]",
    "SubscribeParams.after": "After | None",
    "UpdateParams.auto_title": "str | Literal[True] | None",
    "UpdateParams.compaction": "Any",
    "UpdateParams.persist": 'Literal["on_assistant", "immediate"]',
}

# Docstrings of a method's parameters, added to the description in the schema.
OPTION_NOTES: Final = {
    "AcquireOptions": "`timeout` must be longer than `wait_ms`.",
    "AppendOptions": (
        "A `Raw` travels as the bytes it is. Entries without `id` get an id here, unless an"
        " `idempotency_key` is given."
    ),
    "CompactOptions": (
        "With neither a summary nor messages the daemon has a summary written, by `instructions`:"
        " allow minutes for that (`timeout`)."
    ),
    "ContextOptions": "The context that `known` and `if_none_match` name is kept by the caller.",
    "ForkOptions": '`at=None` ends the path before the first entry; `link="none"`: no parent.',
    "ListOptions": "`archived=None` lists both; times are RFC 3339.",
    "MergeOptions": '`head`, `expected` and `lease_id` go with `into="this"`.',
    "PresenceOptions": "`state` None takes the presence back.",
    "RebaseOptions": '`squash` is `{"summary": …}`.',
    "SearchOptions": (
        "`archived=None` searches both. The answer of a `call` of `session/search` says with `whole=False`"
        " how far the reading is (`looking`)."
    ),
    "SignalOptions": "`data` is any JSON; `Raw` travels as it is.",
    "SubscribeOptions": (
        "`timeout` bounds the first answer only. `signals` yields `Signal` and `Presence` too;"
        " without it, they stay away."
    ),
    "TreeOptions": (
        "On Python 3.11 a nested tree of more than about 480 levels needs a higher"
        " `sys.setrecursionlimit`."
    ),
    "UpdateOptions": "A parameter that is left out changes nothing.",
}

# Docstrings of helpers, added to the summary of the method in the schema.
CALL_NOTES: Final = {
    "retention/run": "A dry run unless `dry_run=False`.",
    "session/acquire": "Moves of the head name `lease_id`. The lease is lost with the connection.",
    "session/append": "Entries are stored once, however often the request had to be sent.",
    "session/branch": "`entry_id` None is the place before the first entry; with `drop=True` it is not sent.",
    "session/build_context": "The client keeps nothing of the context.",
    "session/close": "To end the client: `disconnect`.",
    "session/flush": (
        "With `durability` only; behind the events of a subscription: `request_flush` of its stream."
    ),
    "session/label": "Returns the `seq` of the record. A `label` of None clears.",
    "session/navigate": "After a message of the user `editor_text` is its text, to be said anew.",
    "session/release": "To release a lease that is over is no error.",
    "session/repair": "A dry run unless `dry_run=False`.",
    "session/rewind": "`to` None is the place before the first entry.",
    "session/export": "A file that is there is not written over: `storage_error`, EEXIST.",
    "session/signal": "Subscriptions with `signals=True` are told. A signal is never sent twice.",
    "state/save": "A file that is there is not written over: `storage_error`, EEXIST.",
}
