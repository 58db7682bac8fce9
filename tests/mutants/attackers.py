"""The attackers: tests and programs of this repository that look for broken promises.

Law: an attacker comes from outside, by the wire, the file or the disk. A test that checks the
very line with the planted bug would prove nothing.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

__all__ = ["ATTACKERS", "Attacker"]


class Attacker(Struct, frozen=True):
    """Tests, as pytest is told of them, or else a program of this repository and its words."""

    name: str
    how: str
    tests: tuple[str, ...] = ()
    program: tuple[str, ...] = ()


# Of tests that run on both backends, the half on the one that production runs on.
_ONCE: Final = ("-k", "not trio")

ATTACKERS: Final = (
    Attacker(
        "crash-model",
        "a journal lives on a disk that loses power, is full and fails, in any order",
        ("tests/crash/test_model.py",),
    ),
    Attacker(
        "failed-syncs",
        "a sync fails, the repair too, and an opening finds what only the page cache has",
        ("tests/crash/test_reopening.py", "tests/service/test_failed_syncs.py"),
    ),
    Attacker(
        "replaced-files",
        "copies and other files take the place of an open one",
        ("tests/crash/test_replaced_files.py",),
    ),
    Attacker(
        "preconditions",
        "requests whose expectations fit in part",
        (
            "tests/service/test_append_expected.py",
            "tests/service/test_append_on_conflict.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "state-kills",
        "a change of a document or a secret ends at each call of the disk",
        ("tests/crash/test_state_kills.py", *_ONCE),
    ),
    Attacker(
        "state-counter",
        "many clients count up by compare-and-set, on a disk that fails",
        ("tests/service/test_state_counter.py", *_ONCE),
    ),
    Attacker(
        "state-store",
        "documents that expire, wait, are refused and read in any order",
        ("tests/service/test_state_store.py", *_ONCE),
    ),
    Attacker(
        "secrets",
        "files of secrets are changed, swapped and rolled back, and keys are wrong",
        ("tests/service/test_secrets.py", *_ONCE),
    ),
    Attacker(
        "roots",
        "folders of other programs vanish, grow, hold what is no session, and are removed",
        (
            "tests/service/test_roots.py",
            "tests/service/test_random_roots.py",
            "tests/service/test_root_watching.py",
            "tests/service/test_root_creation.py",
            "tests/service/test_session_refs.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "moving",
        "a profile moves into a database and back, interrupted, and into what is there already",
        (
            "tests/service/test_interrupted_moves.py",
            "tests/service/test_late_moves.py",
            "tests/service/test_moving.py",
            "tests/service/test_moving_conflicts.py",
            "tests/service/test_moving_documents.py",
        ),
    ),
    Attacker(
        "databases",
        "daemons that know nothing of each other write to one database, and lines are changed there",
        (
            "tests/service/test_bad_rows_on_one_database.py",
            "tests/service/test_brought_back_on_one_database.py",
            "tests/service/test_clean_up_on_one_database.py",
            "tests/service/test_compactions_on_one_database.py",
            "tests/service/test_cut_connections_on_one_database.py",
            "tests/service/test_daemons_on_one_database.py",
            "tests/service/test_durability_on_one_database.py",
            "tests/service/test_far_behind_on_one_database.py",
            "tests/service/test_faults_on_one_database.py",
            "tests/service/test_leases_on_one_database.py",
            "tests/service/test_lists_meanwhile_on_one_database.py",
            "tests/service/test_lists_on_one_database.py",
            "tests/service/test_lost_answers_on_one_database.py",
            "tests/service/test_lost_calls_on_one_database.py",
            "tests/service/test_promotions_on_one_database.py",
            "tests/service/test_queues_on_one_database.py",
            "tests/service/test_purges_meanwhile_on_one_database.py",
            "tests/service/test_races_on_one_database.py",
            "tests/service/test_reads_while_away.py",
            "tests/service/test_repairs_on_one_database.py",
            "tests/service/test_rows_changed_by_hand.py",
            "tests/service/test_secrets_on_one_database.py",
            "tests/service/test_sent_appends_on_one_database.py",
            "tests/service/test_signs_of_old_lists.py",
            "tests/service/test_clocks_on_one_database.py",
            "tests/service/test_states_on_one_database.py",
            "tests/service/test_turns_on_one_database.py",
            "tests/service/test_whole_sessions_on_one_database.py",
            "tests/unit/test_catching_up.py",
            "tests/unit/test_positions.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "company",
        "daemons on one database that lose signals, answers and each other, and tables that are emptied",
        (
            "tests/service/test_presence_on_one_database.py",
            "tests/service/test_signals_on_one_database.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "closed-sessions",
        "sessions are opened and closed again and again, and listed",
        ("tests/service/test_closed_sessions.py", *_ONCE),
    ),
    Attacker(
        "wake-ups",
        "requests come and connections end while a daemon waits for the database",
        ("tests/service/test_wake_ups_on_one_database.py", *_ONCE),
    ),
    Attacker(
        "database-copies",
        "kept copies of lines are spoilt, cut or out of date, and sessions are purged elsewhere",
        ("tests/service/test_kept_copies_on_one_database.py", *_ONCE),
    ),
    Attacker(
        "database-statements",
        "statements of a real server, with rivals that wait for a row, and rows changed by hand",
        (
            "tests/postgresql/test_bad_rows.py",
            "tests/postgresql/test_database.py",
            "tests/postgresql/test_reading.py",
            "tests/postgresql/test_session_rows.py",
            "-k",
            "not trio",
        ),
    ),
    Attacker(
        "database-server",
        "a real server, or a daemon on it, is stopped, rows are locked, poolers stand in between",
        (
            "tests/postgresql/test_bell.py",
            "tests/postgresql/test_pool.py",
            "tests/postgresql/test_poolers.py",
            "tests/postgresql/test_stopped_daemons.py",
            "-k",
            "not trio",
        ),
    ),
    Attacker(
        "leases",
        "leases over restarts, clocks that go back, and who is next",
        ("tests/service/test_leases.py", *_ONCE),
    ),
    Attacker(
        "every-fault",
        "each call of a journal into the disk fails once",
        (
            "tests/crash/test_append_faults.py",
            "tests/crash/test_file_faults.py",
            "tests/crash/test_foreign_file_faults.py",
        ),
    ),
    Attacker(
        "service-faults",
        "each call into the disk fails once under every method",
        ("tests/crash/test_service_faults.py", *_ONCE),
    ),
    Attacker(
        "service-model",
        "any requests in any order on a failing disk, with files of users beside the sessions",
        ("tests/crash/test_service_model.py",),
    ),
    Attacker(
        "files-of-users",
        "files, folders and links of users whose names are nearly those that sessiond makes",
        (
            "tests/service/test_files_of_users.py",
            "tests/service/test_older_versions.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "operator-files",
        "files of Operator's, changed in every way and read by a reader of Operator's format",
        ("tests/service/test_operator_files.py", "tests/service/test_older_versions.py", *_ONCE),
    ),
    Attacker(
        "sharur-files",
        "files of sharur's, changed in every way and read by a reader of sharur's format",
        (
            "tests/service/test_sharur_in_place.py",
            "tests/service/test_sharur_files.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "piglet-files",
        "files of piglet's, changed in every way and read by a reader of piglet's format",
        ("tests/service/test_piglet_files.py",),
    ),
    Attacker(
        "working-state",
        "decisions, tasks and prunes, retried, forked, on drafts, over crashes and restarts",
        ("tests/service/test_working_state.py", *_ONCE),
    ),
    Attacker(
        "working-model",
        "agents change their state and take prompts, in any order, on a disk that fails and cuts",
        ("tests/crash/test_working_model.py",),
    ),
    Attacker(
        "queues",
        "prompts that are sent again, taken, kept over restarts, and promoted with their session",
        ("tests/service/test_queues.py", *_ONCE),
    ),
    Attacker(
        "turns",
        "turns of two heads that move, held against what a client makes of the events",
        ("tests/service/test_turns.py", *_ONCE),
    ),
    Attacker(
        "waiting-disk",
        "clients look at everything while the disk works on an entry, and when it fails",
        ("tests/service/test_durability.py", "tests/service/test_flush.py", *_ONCE),
    ),
    Attacker(
        "torture",
        "all of it at once: heads, leases, contexts, kills, cut connections; then a proof",
        program=("tests.torture.run", "--seconds", "12", "--seed", "11", "--json"),
    ),
    Attacker(
        "random-requests",
        "bursts of random requests, kills in between, every session compared with what it may be",
        ("tests/processes/test_random_sessions.py",),
    ),
    Attacker(
        "conformance",
        "the kit for clients, all its cases against a daemon",
        ("tests/interop/test_conformance.py", "-k", "both_framings and ndjson"),
    ),
    Attacker(
        "closes",
        "clients append, subscribe and close a session in one batch, at random",
        ("tests/service/test_idle_sessions.py", *_ONCE),
    ),
    Attacker(
        "slow-readers",
        "subscribers that resume, that read slowly and that do not read",
        (
            "tests/service/test_resumed_subscriptions.py",
            "tests/service/test_subscription_filters.py",
            "tests/service/test_slow_subscribers.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "damaged-files",
        "files with every kind of damage are opened, and opened again",
        (
            "tests/service/test_files.py",
            "tests/service/test_damage.py",
            "tests/service/test_imports.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "copies",
        "forks, rebases and merges, while their source changes and the power fails",
        (
            "tests/service/test_copy_snapshots.py",
            "tests/service/test_copy_contents.py",
            "tests/service/test_fork.py",
            "tests/service/test_predecessor_copy_defects.py",
            "tests/service/test_rebase_and_merge.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "retention",
        "old sessions beside new ones, watched ones, and ones that are written to meanwhile",
        ("tests/service/test_retention.py", *_ONCE),
    ),
    Attacker(
        "scopes",
        "keys that are asked for at once and after every end, and switches that fail",
        ("tests/service/test_scopes.py", *_ONCE),
    ),
    Attacker(
        "moves",
        "heads go elsewhere, and the power fails",
        ("tests/service/test_predecessor_defects.py", "tests/service/test_navigate.py", *_ONCE),
    ),
    Attacker(
        "foreign-writers",
        "other programs write to the file of an open session, whole lines and halves",
        (
            "tests/service/test_foreign_atoms.py",
            "tests/service/test_foreign_torn_lines.py",
            "tests/service/test_foreign_writers.py",
            "tests/service/test_repair.py",
            "tests/service/test_rewritten_in_place.py",
            "tests/service/test_foreign_duplicate_ids.py",
            "tests/service/test_saved_in_place.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "fuzz-intrusions",
        "another program writes into sessions' files at random, open or not",
        ("tests/fuzz/test_campaign.py", "-k", "intrusions and 10000"),
    ),
    Attacker(
        "signals",
        "signals and presence, and who misses them",
        ("tests/service/test_signals.py", *_ONCE),
    ),
    Attacker(
        "group-commit",
        "appends that wait together, are cancelled, and are too many",
        ("tests/service/test_group_commit.py", *_ONCE),
    ),
    Attacker(
        "annotations",
        "patches on what is known about an entry, in any order, and a restart between them",
        ("tests/service/test_annotations.py",),
    ),
    Attacker(
        "pages",
        "sessions whose every text attacks the page or holds a secret",
        ("tests/unit/test_html_pages.py", "tests/unit/test_annotations.py"),
    ),
    Attacker(
        "exports",
        "sessions that go to every format and back, with what a format lacks",
        ("tests/service/test_exports.py",),
    ),
    Attacker(
        "compactions",
        "clients that summarise, veto, hang and leave while compactions are under way",
        (
            "tests/service/test_compaction_runs.py",
            "tests/service/test_compaction_run_endings.py",
            "tests/service/test_file_lists.py",
            "tests/service/test_hooks.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "written-copies",
        "writers of merges and squashes, while heads move, files are replaced and callers leave",
        ("tests/service/test_written_copies.py", *_ONCE),
    ),
    Attacker(
        "limits",
        "clients that leave no room to others",
        ("tests/service/test_byte_budget.py", *_ONCE),
    ),
    Attacker(
        "privacy",
        "what a umask of 0 and a log may show of a message",
        ("tests/processes/test_privacy.py",),
    ),
    Attacker(
        "syscalls",
        "strace counts what a batch costs the disk",
        ("tests/processes/test_syscalls.py",),
    ),
    Attacker(
        "real-faults",
        "system calls of a daemon under load fail by strace",
        ("tests/processes/test_real_faults.py",),
    ),
    Attacker(
        "failing-calls",
        "every system call of a daemon fails by strace, one after the other, whatever is under way",
        ("tests/processes/test_failing_calls.py",),
    ),
    Attacker(
        "exhaustion",
        "a daemon without descriptors, memory or threads, and what its largest size was",
        ("tests/processes/test_exhaustion.py",),
    ),
    Attacker(
        "large-files",
        "sparse and endless files and lines without an end, read by every reader",
        ("tests/processes/test_large_files.py",),
    ),
    Attacker(
        "many-connections",
        "processes that open more connections than the daemon may have files",
        ("tests/processes/test_many_connections.py",),
    ),
    Attacker(
        "fuzz-frames",
        "frames of real clients, mutated, in both framings",
        ("tests/fuzz/test_campaign.py", "-k", "frames and (short or 10000)"),
    ),
    Attacker(
        "fuzz-deltas",
        "contexts in every view by callers that hold older ones, and after another opening",
        ("tests/fuzz/test_campaign.py", "-k", "deltas and (short or 10000)"),
    ),
    Attacker(
        "known-deltas",
        "contexts of a session that grows, branches and is compacted, held against deltas and APIs",
        ("tests/service/test_context_deltas.py",),
    ),
    Attacker(
        "kept-messages",
        "compactions by every program's rules, however little is kept",
        ("tests/service/test_kept_tool_results.py",),
    ),
    Attacker(
        "bad-plans",
        "plans and compactions that must be refused, and some that must not",
        ("tests/service/test_invalid_plans.py", "tests/service/test_compaction_plans.py", *_ONCE),
    ),
    Attacker(
        "recommendations",
        "contexts that get too large, by whoever's figures",
        ("tests/service/test_compaction_recommendations.py", *_ONCE),
    ),
    Attacker(
        "recorded-answers",
        "what pi answered itself, and sharur's figures",
        ("tests/service/test_vectors.py", "tests/service/test_sharur_preset.py", *_ONCE),
    ),
    Attacker(
        "agents-in-place",
        "sessions of other agents are read, followed, forked, written anew, and to be changed",
        (
            "tests/service/test_agents_in_place.py",
            "tests/service/test_opencode_in_place.py",
            "tests/unit/test_opencode_store.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "agents-beside",
        "registries, outputs and gigabytes that lie beside the files of other agents",
        (
            "tests/service/test_running_agents.py",
            "tests/service/test_agent_outputs.py",
            "tests/service/test_search_rooms.py",
            *_ONCE,
        ),
    ),
    Attacker(
        "agents-agree",
        "files and databases of other agents from a seed, and a second reader of each",
        (
            "tests/unit/test_agents_agree.py",
            "tests/unit/test_opencode_agrees.py",
            "-k",
            "not any_seed",
        ),
    ),
    Attacker(
        "two-daemons",
        "a second daemon wants the profile, a session's file, or a copy of it",
        ("tests/processes/test_two_daemons.py",),
    ),
    Attacker(
        "typescript-client",
        "clients in JavaScript, killed and left alone by their daemon",
        (
            "tests/interop/typescript_client/test_promises.py",
            "tests/interop/typescript_client/test_kills.py",
            "tests/interop/typescript_client/test_resends.py",
        ),
    ),
    Attacker(
        "agents-sdk",
        "sessions of the OpenAI Agents SDK that several clients change at once",
        ("tests/interop/agents_sdk/test_compaction.py", "tests/interop/agents_sdk/test_items.py"),
    ),
    Attacker(
        "mcp",
        "clients of MCP, well-behaved and not",
        ("tests/interop/mcp/test_lines.py", "tests/interop/mcp/test_marks.py"),
    ),
    Attacker(
        "editor",
        "an editor with unsaved text, whose file other programs write, repair and damage",
        ("tests/interop/lsp/test_folding.py", "tests/interop/lsp/test_fixes.py"),
    ),
)
