"""The Python client offers what the protocol takes: no more, no less, by the published schema."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from sessiond_client import options, session_options

REPOSITORY = Path(__file__).parents[2]
SCHEMA = json.loads((REPOSITORY / "protocol.schema.json").read_bytes())

# Options, their method, and what the helper takes by position.
OFFERED: list[tuple[Any, str, set[str]]] = [
    (session_options.CreateOptions, "session/create", {"cwd"}),
    (session_options.OpenOptions, "session/open", set()),
    (session_options.UpdateOptions, "session/update", {"session_id"}),
    (session_options.ListOptions, "session/list", set()),
    (options.AppendOptions, "session/append", {"session_id"}),
    (options.BranchOptions, "session/branch", {"session_id", "entry_id"}),
    (options.MoveOptions, "session/reset", {"session_id"}),
    (options.MoveOptions, "session/rewind", {"session_id", "to"}),
    (options.AcquireOptions, "session/acquire", {"session_id", "ttl_ms"}),
    (options.Timed, "session/renew", {"session_id", "lease_id", "ttl_ms"}),
    (options.Timed, "session/release", {"session_id", "lease_id"}),
    (options.PageOptions, "session/labels", {"session_id"}),
    (session_options.RepairOptions, "session/repair", {"session_id"}),
    (session_options.RetentionOptions, "retention/run", {"max_age_hours"}),
    (session_options.SearchOptions, "session/search", {"query"}),
    (session_options.ContinueOptions, "session/continue_recent", set()),
    (session_options.ForestOptions, "catalog/forest", set()),
    (options.Timed, "session/resolve", {"ref"}),
    (options.EntriesOptions, "session/entries", {"session_id"}),
    (options.PathOptions, "session/path", {"session_id"}),
    (options.TreeOptions, "session/tree", {"session_id"}),
    (options.TurnsOptions, "session/turns", {"session_id"}),
    (options.ContextOptions, "session/build_context", {"session_id"}),
    (options.NavigateOptions, "session/navigate", {"session_id", "entry_id"}),
    (options.PlanBranchOptions, "session/plan_branch_summary", {"session_id", "entry_id"}),
    (options.PlanCompactionOptions, "session/plan_compaction", {"session_id"}),
    (options.UsageOptions, "session/usage", {"session_id"}),
    (options.StatsOptions, "session/stats", {"session_id"}),
    (options.QueueOptions, "session/queue", {"session_id"}),
    (options.CompactOptions, "session/compact", {"session_id"}),
    (session_options.ForkOptions, "session/fork", {"session_id"}),
    (session_options.RebaseOptions, "session/rebase", {"session_id"}),
    (options.Timed, "session/plan_merge", {"session_id", "other_session_id"}),
    (session_options.MergeOptions, "session/merge", {"session_id", "other_session_id", "text"}),
    (session_options.ImportOptions, "session/import", set()),
    (session_options.ExportOptions, "session/export", {"session_id"}),
    (options.SubscribeOptions, "session/subscribe", {"session_id"}),
    (options.SignalOptions, "session/signal", {"session_id", "kind"}),
    (options.PresenceOptions, "session/presence", {"session_id"}),
]


@pytest.mark.parametrize(
    ("offered", "method", "by_position"), OFFERED, ids=[method for _, method, _ in OFFERED]
)
def test_a_helper_offers_every_parameter_of_its_method(
    offered: Any, method: str, by_position: set[str]
) -> None:
    name = SCHEMA["methods"][method]["params"]["$ref"].removeprefix("#/$defs/")
    taken = set(SCHEMA["$defs"][name]["properties"]) - {"_meta"}
    assert (
        set(get_type_hints(offered)) - set(get_type_hints(options.Timed))
    ) | by_position == taken


def test_the_blocking_methods_are_those_of_the_anyio_client() -> None:
    done = subprocess.run(
        [sys.executable, REPOSITORY / "scripts" / "unasync", "--check"], check=False
    )
    assert done.returncode == 0, "run: make fix"


def test_the_blocking_client_imports_no_anyio() -> None:
    program = (
        "import sys; from sessiond_client import connect_blocking; sys.exit('anyio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == 0, "a script without tasks would wait for anyio at every start"
