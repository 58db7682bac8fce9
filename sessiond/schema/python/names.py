"""Names in the Python client for the results, notifications and requests of the protocol.

A row of `RESULTS`, `MESSAGES` or `REQUESTS` is a type of the client: its name, the components of
the schema that it reads, and its fields in their order. A field is required, unless a mark follows
its name, for the client reads the answers of older daemons too:

    name?         None where it is missing
    name=         0, "", False, an empty list or an empty struct where it is missing
    name=word     that word, or true, where it is missing
    name~         UNSET where it is missing
    name!         kept as the bytes that came, and decoded at the first use; name!? is null if missing
"""

from __future__ import annotations

from typing import Final

Row = tuple[str, str, str]

MESSAGES: Final[tuple[Row, ...]] = (
    ("Cursor", "After", "seq entry_id~ epoch~"),
    ("EntryName", "Message", "id type"),
    ("EntryEvent", "SessionEvent", "session_id epoch seq entry! head~ leaf_id~ origin~ dropped="),
    ("Synced", "Synced", "session_id seq"),
    ("Lagged", "Lagged", "session_id seq dropped_signals="),
    ("Replaced", "ReplacedTold", "session_id epoch reason="),
    ("Signal", "SignalTold", "session_id kind data!? origin~ queue_id?"),
    ("Present", "Present", "state access=write since= client_id? name? head? data? reason?"),
    ("Departure", "Departure", "reason client_id? name?"),
    ("Presence", "PresenceTold", "session_id clients left?"),
    ("CatalogChanged", "CatalogChanged", "revision session_id? change=many"),
    ("StateChanged", "StateChanged", "revision namespace? key? change=many"),
    ("StateChange", "Changed", "archived read_only read_only_reason?"),
    ("ProgressValue", "ProgressValue", "done total unit"),
    ("ProgressTold", "ProgressTold", "token value"),
    ("Withdrawn", "Withdrawn", "id"),
    ("Subscribed", "Subscribed", "epoch seq replaced? clients="),
    ("WatchResult", "WatchResult", "revision"),
    ("Capabilities", "Capabilities", "summarize= hooks= summarize_purposes="),
    ("ServerInfo", "ServerInfo", "version= build="),
    ("InitializeResult", "InitializeResult", "capabilities= server_info= instance_id="),
)

RESULTS: Final[tuple[Row, ...]] = (
    ("FlushResult", "FlushResult", "seq durability?"),
    ("Head", "HeadInfo", "name leaf_id seq?"),
    (
        "SessionInfo",
        "SessionInfo",
        (
            "id path? cwd? title? agent? auto_title? model? provider? thinking_level? tags? status?"
            " created_at? updated_at? seq? leaf_id? heads? message_count? message_total? entry_count?"
            " first_message? usage? persist? persisted? dialect? archived? read_only? problems? epoch?"
            " lineage? dry_run? plan? system_prompt? compaction? metadata? read_only_reason? scope?"
            " agent_program? turn_count? started_at? ended_at? partial? running?"
        ),
    ),
    ("Scope", "Scope", "scope agent? project?"),
    ("SessionAnswer", "SessionResult", "session"),
    ("Created", "CreateResult", "session created=true"),
    ("UnreadableFile", "Unreadable", "path reason="),
    ("LookProgress", "LookProgress", "done total? until?"),
    ("SessionPage", "ListResult", "sessions next_cursor? revision? unreadable= looking?"),
    ("AppendedEntry", "StoredEntry", "id parent_id seq timestamp?"),
    ("Appended", "Receipt", "entries leaf_id seq head=main duplicate= durability=disk"),
    ("SeqAnswer", "Labelled", "seq"),
    ("HeadsAnswer", "HeadsResult", "heads"),
    (
        "StoredEntry",
        "PathEntry EntryResult EntryAt",
        "seq entry! children? label? resolved_parent_id~ annotations~",
    ),
    ("EntryPage", "EntriesResult", "entries next_seq? seq?"),
    ("PathPage", "PathResult", "entries next_cursor?"),
    ("PresenceAnswer", "PresenceResult", "clients"),
    ("Signalled", "Queued", "queue_id? duplicate="),
    ("Prompt", "WaitingPrompt", "queue_id kind data timestamp= origin="),
    ("QueueAnswer", "QueueResult", "waiting"),
    (
        "Imported",
        "ImportResult",
        "session report? twins= imported=true same_as= same_by? grown_from=",
    ),
    ("Exported", "ExportResult", "path? content? entries? notes="),
    # Heads, trees and contexts.
    ("Moved", "Moved", "leaf_id head=main seq?"),
    ("Rewound", "Rewound", "leaf_id seq head=main rewound= rewound_count?"),
    ("Lease", "Lease", "lease_id epoch expires_at?"),
    ("Label", "LabelRow", "entry_id label timestamp?"),
    ("LabelPage", "LabelsResult", "labels next_cursor?"),
    ("EntryMeant", "EntryMeant", "entry_id seq short="),
    ("EntriesMeant", "ResolveEntriesResult", "entries"),
    (
        "TreeNode",
        "FlatNode",
        (
            "id parent_id? seq? type= depth= children? on_active_path= label? preview? tokens_before?"
            " timestamp? indent? connector? last? gutters? resolved_parent_id~ role?"
        ),
    ),
    (
        "NestedNode",
        "NestedNode",
        (
            "id parent_id? seq? type= depth= children= on_active_path= label? preview? tokens_before?"
            " timestamp? resolved_parent_id~ role?"
        ),
    ),
    ("TurnBlock", "ShownBlock", "type content? meta?"),
    (
        "Turn",
        "TurnAt",
        ("id seq last_seq status timestamp? request= response= started_at? ended_at? usage?"),
    ),
    ("TurnPage", "TurnsResult", "turns next_cursor? leaf_id? seq?"),
    ("TreePage", "TreeResult NestedTree TextTree", "nodes= next_cursor? seq? roots= text?"),
    (
        "Context",
        "BuildContextResult NotModified",
        (
            "etag not_modified= messages! sources= thinking_level? model? leaf_id? seq? tokens? system?"
            " unchanged= next_cursor?"
        ),
    ),
    ("CompactedEntry", "EntryRef", "id seq"),
    ("Compacted", "CompactResult", "entry leaf_id seq tokens_before? tokens_after?"),
    # What an agent must remember.
    ("Decision", "DecisionInfo", "decision rationale? timestamp?"),
    ("StateMetrics", "Metrics", "decision_count= task_count= total_tokens="),
    (
        "WorkingState",
        "StateInfo",
        (
            "agent? model? plan? tags= decisions= artifacts= tokens_used= turn_count= metrics="
            " pruned= last_pruned_at?"
        ),
    ),
    ("Remembered", "StateResult", "state leaf_id seq duplicate="),
    ("Brief", "BriefResult", "session_id resume context state model? fork_count?"),
    (
        "TaskDone",
        "TaskResult",
        "session_id resume context state model? pruned= leaf_id? seq? duplicate=",
    ),
    ("Pruned", "PruneResult", "state pruned= would_prune= reasons= leaf_id? seq? duplicate="),
    # The size of a context, and how to make it smaller.
    (
        "Totals",
        "Usage",
        "input_tokens= output_tokens= cache_read_tokens= cache_write_tokens= total_tokens= cost=",
    ),
    ("WindowUsage", "UsageResult", "tokens window reserve should_compact totals="),
    ("MessageFigures", "MessageFigures", "user= assistant= tool= other= total="),
    ("ToolFigures", "ToolFigures", "name calls="),
    ("FileFigures", "FileFigures", "read= modified= more="),
    ("CompactionShown", "CompactionShown", "entry_id seq timestamp tokens_before? tokens_after?"),
    (
        "CompactionFigures",
        "CompactionFigures",
        "count= tokens_before= tokens_after= tokens_freed= newest=",
    ),
    (
        "SessionFigures",
        "SessionFigures",
        (
            "entries messages usage files compactions tool_calls= tool_errors= tools= first_at?"
            " last_at?"
        ),
    ),
    ("QueueCounts", "QueueCounts", "steer= follow_up= other= total="),
    ("SessionStats", "StatsResult", "seq leaf_id heads branches context_tokens whole path queue="),
    ("PlannedFiles", "PlannedFiles", "read= modified="),
    (
        "PlanFacts",
        "PlanFacts",
        (
            "plan_id leaf_id first_kept_entry_id summarize= turn_prefix= previous_summary? files="
            " tokens_before?"
        ),
    ),
    ("CompactionPlan", "CompactionPlan", "prompt"),
    ("PlannedCompaction", "PlanCompactionResult", "plan? reason?"),
    (
        "BranchPlan",
        "PlanBranchSummaryResult",
        "entries files= details? tokens? common_ancestor_id? leaf_id? prompt?",
    ),
    ("Navigated", "Navigated", "leaf_id head=main seq? moved=true editor_text?"),
    # Sessions brought together.
    ("MergeSource", "MergeSource", "session_id leaf_id? entry_ids="),
    ("MergePlan", "PlanMergeResult", "prompt sources"),
    ("Merged", "MergedHere CopyResult", "entry? leaf_id? seq? session?"),
    # Sessions found, and their files.
    ("Problem", "Problem", "line kind detail="),
    (
        "Verified",
        "Verification",
        "ok dialect? entries? lines? bytes? problems= problem_count? repairable= read_only=",
    ),
    (
        "Repaired",
        "Repair",
        "dry_run repaired= problems= problem_count? kept? dropped? dropped_lines= backup? reason? recovered? reparented? moved?",
    ),
    ("Failed", "Failed", "session_id kind message="),
    ("Unloadable", "Unloadable", "session_id kind message="),
    ("Switched", "Switched", "session created= released= loaded= failed="),
    ("Retired", "RetentionResult", "sessions failed= dry_run=true"),
    ("Trashed", "TrashedSession", "session_id path title? cwd? origin? bytes="),
    ("TrashPage", "TrashResult", "sessions next_cursor?"),
    ("Hit", "Found", "session_id entry_id seq snippet= tool? checked=true"),
    ("Unsearched", "Unsearched", "texts before"),
    ("SearchAnswer", "SearchResult", "hits unreadable= looking? unsearched="),
    (
        "ForestNode",
        "ForestNode",
        (
            "session_id parent_id? depth= children= orphan= title? first_message? cwd? archived= created_at?"
            " updated_at? message_count? indent? connector? last? gutters? partial?"
        ),
    ),
    ("Forest", "ForestNodes ForestText", "nodes= text?"),
    # The state store.
    (
        "StateValue",
        "StateRow",
        "key revision value! bytes= tags= created_at? updated_at? expires_at?",
    ),
    ("StateKey", "KeyRow", "key revision bytes= tags= created_at? updated_at? expires_at?"),
    ("StateStored", "StateSetResult", "revision created= expires_at?"),
    ("StateDeleted", "StateDeleteResult", "deleted revision="),
    ("StateValues", "StateAllResult", "values revision="),
    ("StateNamespace", "NamespaceRow", "namespace keys= bytes= revision="),
    ("StateAside", "Aside", "namespace path"),
    ("StateProblem", "LoadProblem", "path reason key?"),
    ("StateLoadedNamespace", "LoadedRow", "namespace keys changed= revision="),
    ("StateLoaded", "StateLoadResult", "loaded problems="),
    ("StateSaved", "StateSaveResult", "path keys="),
    ("StateListing", "StateKeys StateNamespaces", "keys= namespaces= aside= revision="),
    ("SecretValue", "SecretGetResult", "key value? revision= created_at? updated_at?"),
    ("SecretStored", "SecretSetResult", "revision created="),
    ("SecretDeleted", "SecretDeleteResult", "deleted revision="),
    ("SecretName", "SecretRow", "namespace key revision= created_at? updated_at?"),
    ("SecretNames", "SecretListResult", "secrets aside="),
    ("SecretRotated", "RotateResult", "secrets keys="),
    (
        "Root",
        "RootInfo",
        "path kind sessions? bytes= added= configured= reason? indexed_chars= index_full= outputs=true",
    ),
    ("RootPage", "RootsResult", "roots"),
)

REQUESTS: Final[tuple[Row, ...]] = (
    (
        "Summarize",
        "SummarizeParams",
        "session_id head prompt plan? purpose=compaction sources= entry_ids=",
    ),
    ("BeforeCompact", "BeforeCompact", "session_id head plan? automatic="),
    ("BeforeFork", "BeforeFork", "session_id entry_id?"),
    (
        "BeforeBranch",
        "BeforeBranch",
        "session_id head leaf_id? entry_id? summarize= instructions? label?",
    ),
    ("BeforeSwitch", "BeforeSwitch", "from_session_ids reason to_session_id?"),
)

# Other names for types, by module.
ALIASES: Final[dict[str, dict[str, str]]] = {
    "messages": {"After": "Cursor | Mapping[str, Any] | int"},
    # The method `list` hides the type of that name where methods are declared.
    "results": {
        "Heads": "list[Head]",
        "Everybody": "list[Present]",
        "Prompts": "list[Prompt]",
        "Hits": "list[Hit]",
        "Roots": "list[Root]",
    },
    "requests": {"Subject": "Summarize | BeforeCompact | BeforeFork | BeforeBranch | BeforeSwitch"},
}

BASES: Final = {"CompactionPlan": "PlanFacts"}
SETTINGS: Final = {"Cursor": "omit_defaults=True", "CompactionPlan": "kw_only=True"}

# Types of fields that are read as another type than the schema's.
TYPES: Final = {
    "Context.model": "dict[str, Any]",
    "Context.sources": "list[Any]",
    "Context.tokens": "Any",
    "EntryEvent.dropped": "bool",
    "EntryEvent.origin": "dict[str, Any]",
    "ForestNode.gutters": "list[dict[str, Any]]",
    "Imported.report": "Any",
    "Present.data": "Any",
    "Problem.line": "int | None",
    "ProgressTold.token": "int",
    "SessionInfo.compaction": "Any",
    "SessionInfo.metadata": "Any",
    "SessionInfo.model": "Any",
    "SessionInfo.usage": "dict[str, Any]",
    "SessionPage.revision": "Any",
    "Signal.origin": "dict[str, Any]",
    "Subscribed.replaced": "Any",
    "TreeNode.gutters": "list[dict[str, Any]]",
}

# Docstrings of types, instead of the description of their first component in the schema.
INSTEAD: Final = {
    "Context": "Messages that a model is sent.",
    "Cursor": "A place in a session's log, with the proof that the log was not replaced.",
    "EntryName": "An entry's id and type.",
    "Exported": "The file that was written, or its content.",
    "StateListing": "Keys of one namespace, or the namespaces of the store.",
    "Forest": "The sessions by descent, in the form that was asked for.",
    "Merged": "The entry with the text; the session if a new one was made, or of a dry run.",
    "StoredEntry": "An entry and its place.",
    "TreePage": "The tree in the form that was asked for: `nodes` in pre-order, `roots`, or `text`.",
}

# Docstrings of types and fields, added to the description in the schema.
NOTES: Final = {
    "BeforeCompact": "Without a `plan` a summary from the client has no use. `automatic`: the daemon began by itself.",
    "CatalogChanged": '`change` is "many" after a lost connection too: hints may have been missed.',
    "CompactionPlan": "Send `plan_id` back with the summary that `prompt` asks for.",
    "Context": "With `not_modified` only `etag` is set: use the context you hold.",
    "Cursor": "Give a cursor as `after` to go on behind its entry, also in another process.",
    "EntryEvent": "`raw` is the entry's bytes as stored, `entry` a reading of them.",
    "EntryEvent.leaf_id": "The head's leaf right after this entry; unset where the entry moves no head.",
    "Lagged": "The consumer was too slow. No entry is missing.",
    "PlannedCompaction": "`plan` is None, and `reason` says why, when there is nothing to do.",
    "Replaced": "All known entries of the session are void.",
    "Signal": "`raw` is the data as it was sent, `data` a reading of it.",
    "StateListing": "`keys` of the namespace that was named, else `namespaces` and `aside`.",
    "StateValue": "`raw` is the value's bytes as stored, `value` a reading of them.",
    "StoredEntry": "`raw` is the entry's bytes as stored, `entry` a reading of them.",
    "StoredEntry.children": "Number of children on a path, their ids for a single entry.",
    "StoredEntry.resolved_parent_id": "Parent in the tree of an entry on a path, if it is not `parent_id`.",
    "TreeNode": "`parent_id` is what is stored, `resolved_parent_id` is there if the entry stands elsewhere.",
}

# Properties that are the client's own.
MEMBERS: Final = {
    "EntryEvent": '''\
    @cached_property
    def name(self) -> EntryName:
        """The entry's `id` and `type`, read without its payload."""
        return wire.read(EntryName, self.raw)

    @property
    def cursor(self) -> Cursor:
        """Cursor behind this entry: the `after` to go on from, also in another process."""
        return Cursor(self.seq, self.name.id, self.epoch)
''',
    "TreeNode": '''\
    @property
    def below_id(self) -> str | None:
        """Id of the parent in the tree; None for a root."""
        resolved = self.resolved_parent_id
        return self.parent_id if isinstance(resolved, UnsetType) else resolved
''',
}
