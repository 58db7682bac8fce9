"""Members of each error kind's data besides `kind` and `retryable`, spelled in TypeScript.

A member that ends in `?` is present in some cases only. A test holds the table against `ERRORS` and
against the table of errors in protocol.md.
"""

from __future__ import annotations

from typing import Final

_TEXT: Final = "string"
_NUMBER: Final = "number"
_MATCHES: Final = (
    "({ session_id: string; title: string | null; cwd: string; updated_at: string }"
    " | { entry_id: string; seq: number; short: string; label: string | null })[]"
)

ERROR_DATA: Final[dict[str, dict[str, str]]] = {
    "parse_error": {},
    "invalid_request": {},
    "method_not_found": {"method": _TEXT},
    "invalid_params": {"path": _TEXT, "head?": _TEXT},
    "internal": {"incident_id?": _TEXT},
    "overloaded": {"limit?": _NUMBER, "retry_after_ms": _NUMBER, "closing?": "true"},
    "cancelled": {},
    "version_unsupported": {"supported_versions": "string[]"},
    "permission_denied": {"need": '"read" | "write"'},
    "too_large": {"limit": _NUMBER, "size?": _NUMBER, "pages?": "true"},
    "session_not_found": {
        "session_id?": _TEXT,
        "available?": "string[]",
        "entry_id?": _TEXT,
        "ref?": _TEXT,
    },
    "session_exists": {"session_id": _TEXT},
    "session_locked": {
        "holder": "{ pid: number; host: string | null; since: string | null } | null"
    },
    "draining": {"retry_after_ms": _NUMBER},
    "session_archived": {},
    "session_corrupt": {"line?": _NUMBER, "path?": _TEXT, "repairable?": "boolean"},
    "ambiguous_ref": {"matches": _MATCHES},
    "session_read_only": {
        "reason": '"older_version" | "other_agent" | "not_writable"',
        "use": _TEXT,
    },
    "entry_not_found": {"entry_id": f"{_TEXT} | null", "path": _TEXT},
    "entry_invalid": {"path?": _TEXT, "entry_id?": f"{_TEXT} | null"},
    "precondition_failed": {
        "expected": "Expected",
        "actual": "{ leaf_id: string | null; seq: number }",
        "missed": "string[]",
    },
    "idempotency_conflict": {"entry_id": f"{_TEXT} | null", "stored_seq?": _NUMBER},
    "head_not_found": {"head": _TEXT},
    "revision_mismatch": {
        "namespace": _TEXT,
        "key": _TEXT,
        "expected_revision": _NUMBER,
        "actual_revision": _NUMBER,
    },
    "lease_held": {
        "head": _TEXT,
        "holder": "{ client_id: string | null; name: string | null } | null",
        "epoch?": _NUMBER,
        "expires_at?": _TEXT,
    },
    "lease_lost": {"lease_id": _TEXT},
    "subscription_not_found": {"session_id": _TEXT},
    "plan_stale": {"plan_leaf_id?": f"{_TEXT} | null", "leaf_id?": f"{_TEXT} | null"},
    "summarizer_unavailable": {
        "purpose": '"compaction" | "merge" | "squash" | "branch"',
        "plan": (
            "CompactionPlan | PlanMergeResult | PlanBranchSummaryResult"
            " | { prompt: string; entry_ids: string[] }"
        ),
        "tried": "{ by: string | null; reason: string }[]",
    },
    "vetoed": {"by": f"{_TEXT} | null", "reason": _TEXT},
    "nothing_to_compact": {"reason": _TEXT, "head": _TEXT},
    "secret_key_unavailable": {
        "reason": '"no_key" | "wrong_key" | "unsafe_key" | "bad_key" | "full_key_file" | "command_failed"',
        "path?": _TEXT,
    },
    "secret_corrupt": {"namespace": _TEXT, "key": f"{_TEXT} | null"},
    "storage_error": {"errno": _TEXT, "path?": _TEXT},
}
