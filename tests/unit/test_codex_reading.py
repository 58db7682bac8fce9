"""The reading of Codex's rollouts, a line at a time: entries, contexts, models, usage and moves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.dialects.agents import codex_compactions
from sessiond.dialects.agents.codex import CodexReading
from sessiond.model.usage import Usage
from tests.kit.agents import (
    CODEX,
    codex_asked,
    codex_event,
    codex_item,
    codex_line,
    codex_said,
    codex_tokens,
    codex_turn,
)
from tests.kit.lines import lines_in, spelled
from tests.kit.readings import ReadSession, bytes_kept, check_reading, variants

FILES = sorted(CODEX.glob("*.jsonl"))
THREAD = "019f5000-0000-7000-8000-00000000"
HEAD = codex_line("session_meta", id=f"{THREAD}00ff", cwd="/p", model_provider="openai")
ENVIRONMENT = "<environment_context>\n  <cwd>/home/ann/calc</cwd>\n</environment_context>"


# -- the samples ----------------------------------------------------------------------------------


def test_the_sample_with_a_compaction_reads_as_expected() -> None:
    found = ReadSession(CodexReading(), *lines_in(CODEX, "0001"))
    assert found.leaf_id == "line-18"
    assert found.model == ("gpt-5.5", "openai")
    # The compaction's summary is encrypted: only a mark in its details is left.
    assert found.context() == [
        ("line-14", f"user: {ENVIRONMENT}"),
        ("line-14", "user: add mul to calc"),
        ("line-16", "user: now add div"),
        ("line-18", "assistant: Added div."),
    ]
    assert found.entry(14)["details"] == {"left_out": {"compaction": 1}}
    assert found.context("line-11") == [
        ("line-3", f"custom: {ENVIRONMENT}"),
        ("line-5", "user: add mul to calc"),
        ("line-7", 'assistant: thinking Look first + exec_command call_1 {"cmd": "cat calc.py"}'),
        ("line-9", "result of exec_command call_1: def add(a,b): return a+b"),
        ("line-11", "assistant: Added mul."),
    ]
    # Twice the total moved: 900 (600 of them cached) and 400 in, 60 and 30 out.
    assert found.usage == Usage(700, 90, 600, 0, 1390)
    assert found.types().count("usage") == 2
    origin = found.origin
    assert (origin.session_id, origin.cwd) == (f"{THREAD}0001", "/home/ann/calc")
    assert origin.created_at == "2026-11-02T10:00:00.000Z"
    assert json.loads(bytes(origin.facts["git"]))["branch"] == "main"
    assert found.session.first_message == "add mul to calc"
    # Two prompts: what Codex puts in front of the first one is none.
    assert found.session.turn_counts[found.session.ids["line-18"]] == 2


def test_the_sample_with_a_rollback_reads_as_expected() -> None:
    found = ReadSession(CodexReading(), *lines_in(CODEX, "0002"))
    assert (found.leaf_id, found.usage) == ("line-19", None)
    assert found.model == ("gpt-5.5-codex", "openai")
    begun = [("line-4", "user: name a colour"), ("line-6", "assistant: Red.")]
    assert found.context() == [
        *begun,
        ("line-17", "user: name a city"),
        ("line-19", "assistant: Oslo."),
    ]
    assert found.context("line-12") == [
        *begun,
        ("line-10", "user: name a fruit"),
        ("line-12", "assistant: Pear."),
    ]
    assert found.entry(14)["type"] == "leaf"
    assert found.session.first_message == "name a colour"


def test_the_paginated_samples_read_as_expected() -> None:
    base, own = lines_in(CODEX, "000a"), lines_in(CODEX, "000b")
    found = ReadSession(CodexReading(), *base)
    assert found.texts() == [
        "user: name a colour",
        "assistant: Red.",
        "user: name a fruit",
        "assistant: Pear.",
    ]
    assert (found.leaf_id, found.usage) == ("line-10", None)
    # The lines of the base come behind the fork's first line, which says whose session this is.
    fork = ReadSession(CodexReading(), own[0], *base[1:6], *own[1:])
    assert fork.origin.session_id == f"{THREAD}000b"
    assert fork.leaf_id == "line-10"
    assert fork.texts() == [
        "user: name a colour",
        "assistant: Red.",
        "user: name a city",
        "assistant: Oslo.",
    ]
    assert fork.lines[1:6] == found.lines[1:6]


# -- line by line ---------------------------------------------------------------------------------


def test_a_fork_keeps_its_own_id_behind_the_copied_head_of_its_parent() -> None:
    own = codex_line(
        "session_meta",
        id=f"{THREAD}0009",
        forked_from_id=f"{THREAD}0002",
        cwd="/new",
        timestamp="2026-01-15T09:00:00.000Z",
    )
    found = ReadSession(CodexReading(), own, *lines_in(CODEX, "0002"))
    assert found.origin.session_id == f"{THREAD}0009"
    assert found.origin.created_at == own["payload"]["timestamp"]
    assert found.types()[:2] == ["session_meta", "session_meta"]
    assert len(found.texts()) == 4


@pytest.mark.parametrize(
    ("more", "parent_id", "is_subagent"),
    [
        ({"source": "cli"}, None, False),
        ({"forked_from_id": "f"}, "f", False),
        ({"source": {"subagent": "review"}, "parent_thread_id": "p"}, "p", True),
        ({"source": {"subagent": {"thread_spawn": {"parent_thread_id": "q"}}}}, "q", True),
        ({"source": {"subagent": {}}, "parent_thread_id": "p", "forked_from_id": "f"}, "p", True),
    ],
)
def test_the_head_tells_the_session_that_this_one_comes_from(
    more: Any, parent_id: str | None, is_subagent: bool
) -> None:
    origin = ReadSession(CodexReading(), codex_line("session_meta", id="x", **more)).origin
    assert (origin.parent_id, origin.is_subagent) == (parent_id, is_subagent)


def test_the_oldest_rollouts_have_a_bare_head_and_bare_items() -> None:
    head = {"id": f"{THREAD}0003", "timestamp": "2026-01-15T10:00:00.000Z", "instructions": None}
    found = ReadSession(
        CodexReading(),
        head,
        codex_said("hi")["payload"],
        codex_said("hello", "assistant")["payload"],
    )
    assert found.origin.created_at == head["timestamp"]
    assert found.texts() == ["user: hi", "assistant: hello"]
    assert found.origin.session_id == f"{THREAD}0003"
    # An item without a time has that of the line before.
    assert found.entry(2)["timestamp"] == "2026-01-15T10:00:00.000Z"


@pytest.mark.parametrize(
    "text",
    [
        "<user_instructions>x",
        " # AGENTS.md instructions for /p",
        "<turn_aborted>by hand</turn_aborted>",
        "<user_shell_command>ls</user_shell_command>",
    ],
)
def test_what_codex_says_for_the_user_is_no_prompt(text: str) -> None:
    found = ReadSession(CodexReading(), HEAD, codex_said(text), *codex_asked("go"))
    assert found.texts() == [f"custom: {text}", "user: go"]
    assert (found.entry(2)["custom_type"], found.entry(2)["display"]) == ("codex.injected", False)
    assert found.session.first_message == "go"


def test_the_items_of_one_answer_share_its_id_and_a_result_ends_the_answer() -> None:
    thought = {"summary": [{"type": "summary_text", "text": "a"}, {"text": "b"}]}
    found = ReadSession(
        CodexReading(),
        HEAD,
        codex_said("go"),
        codex_item("reasoning", **thought),
        codex_item("reasoning", encrypted_content="x", summary=[]),
        codex_item("function_call", name="one", arguments="{}", call_id="c1"),
        codex_event("agent_reasoning", text="a"),
        codex_item("function_call", name="two", arguments="{}", call_id="c2"),
        codex_item("function_call_output", call_id="c2", output="2"),
        codex_item("function_call_output", call_id="c1", output="1"),
        codex_said("done", "assistant"),
    )
    assert found.context() == [
        ("line-2", "user: go"),
        ("line-3", "assistant: thinking a\n\nb + one c1 {} + two c2 {}"),
        ("line-9", "result of one c1: 1"),
        ("line-8", "result of two c2: 2"),
        ("line-10", "assistant: done"),
    ]
    answers = [found.entry(at)["message"].get("responseId") for at in (3, 5, 7, 10)]
    assert answers == ["line-3", "line-3", "line-3", "line-10"]


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ({"type": "function_call", "arguments": '{"a": 1}'}, '{"a": 1}'),
        ({"type": "function_call", "arguments": "no object"}, '{"input": "no object"}'),
        ({"type": "custom_tool_call", "input": "*** Begin"}, '{"input": "*** Begin"}'),
        ({"type": "local_shell_call", "action": {"command": ["ls"]}}, '{"command": ["ls"]}'),
    ],
)
@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("done", ": done"),
        ({"content": "bad", "success": False}, " failed: bad"),
        ([{"type": "output_text", "text": "part"}], ": part"),
    ],
)
def test_calls_and_outputs_of_each_form(
    call: dict[str, Any], arguments: str, output: Any, words: str
) -> None:
    kind = "custom_tool_call_output" if "input" in call else "function_call_output"
    found = ReadSession(
        CodexReading(),
        HEAD,
        codex_line("response_item", name="tool", call_id="c1", **call),
        codex_item(kind, call_id="c1", output=output),
    )
    assert found.texts() == [f"assistant: tool c1 {arguments}", f"result of tool c1{words}"]


def test_arguments_that_nest_too_deeply_are_a_text() -> None:
    deep = '{"a":' * 510 + "1" + "}" * 510
    found = ReadSession(
        CodexReading(), HEAD, codex_item("function_call", name="t", arguments=deep, call_id="c")
    )
    assert found.entry(2)["message"]["content"][0]["arguments"] == {"input": deep}


def test_a_line_that_nests_too_deeply_for_an_entry_is_bad() -> None:
    found = ReadSession(
        CodexReading(), HEAD, b'{"type":"world_state","payload":' + b"[" * 508 + b"]" * 508 + b"}"
    )
    assert [one.kind for one in found.session.problems] == ["bad_line"]


# -- compactions ----------------------------------------------------------------------------------


def test_a_replaced_history_has_answers_in_one_piece_and_names_its_results() -> None:
    history = [
        codex_said("go")["payload"],
        codex_item("function_call", name="one", arguments="{}", call_id="c1")["payload"],
        codex_said("well", "assistant")["payload"],
        codex_item("function_call_output", call_id="c1", output="1")["payload"],
        codex_said("rules", "developer")["payload"],
        {"type": "compaction", "encrypted_content": "x"},
    ]
    found = ReadSession(
        CodexReading(),
        HEAD,
        codex_said("old"),
        codex_line("compacted", replacement_history=history),
    )
    assert found.texts() == [
        "user: go",
        "assistant: one c1 {} + well",
        "result of one c1: 1",
    ]
    assert found.entry(3)["details"] == {"left_out": {"message": 1, "compaction": 1}}
    assert found.texts("line-2") == ["user: old"]


def test_an_old_compaction_keeps_the_prompts_on_the_path_and_the_summary() -> None:
    found = ReadSession(
        CodexReading(),
        HEAD,
        *codex_turn(1, "one", "first"),
        *codex_turn(2, "two", "second"),
        codex_event("thread_rolled_back", num_turns=1),
        *codex_turn(3, "three", "third"),
        codex_line("compacted", message="the summary"),
        *codex_asked("four"),
    )
    assert found.texts() == ["user: one", "user: three", "user: the summary", "user: four"]
    assert "details" not in found.entry(15)


def test_an_old_compaction_keeps_the_prompts_of_the_context_that_a_history_replaced() -> None:
    lines = [
        HEAD,
        *codex_turn(1, "one", "first"),
        codex_event("task_started", turn_id="t2"),
        codex_line(
            "compacted",
            replacement_history=[codex_said("new")["payload"], codex_said("newer")["payload"]],
        ),
        *codex_asked("two"),
    ]
    old = codex_line("compacted", message="sum")
    assert ReadSession(CodexReading(), *lines, old).texts() == [
        "user: new",
        "user: newer",
        "user: two",
        "user: sum",
    ]
    # A rollback takes the history back.
    found = ReadSession(CodexReading(), *lines, codex_event("thread_rolled_back", num_turns=1), old)
    assert found.texts() == ["user: one", "user: sum"]


def test_an_old_compaction_counts_the_prompts_that_it_had_no_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codex_compactions, "CODEX_PROMPTS_BYTES_MAX", 80)
    found = ReadSession(
        CodexReading(),
        HEAD,
        *(codex_said(text * 10) for text in "abcd"),
        codex_line("compacted", message="sum"),
    )
    assert found.texts() == [f"user: {'c' * 10}", f"user: {'d' * 10}", "user: sum"]
    assert found.entry(6)["details"] == {"left_out": {"message": 2}}


def test_an_encrypted_marker_beside_a_compaction_is_a_record() -> None:
    found = ReadSession(
        CodexReading(),
        HEAD,
        codex_item("context_compaction", encrypted_content="x"),
        *codex_asked("go"),
    )
    assert found.types()[1] == "response_item.context_compaction"
    assert found.texts() == ["user: go"]


# -- rollbacks ------------------------------------------------------------------------------------


def test_a_rollback_of_several_turns_goes_back_to_before_the_first_of_them() -> None:
    lines = [*codex_turn(1, "one", "a"), *codex_turn(2, "two", "b"), *codex_turn(3, "three", "c")]
    for turns, words in ((1, ["one", "a", "two", "b"]), (2, ["one", "a"]), (3, []), (9, [])):
        found = ReadSession(
            CodexReading(), HEAD, *lines, codex_event("thread_rolled_back", num_turns=turns)
        )
        assert [text.split(": ")[1] for text in found.texts()] == words
        (move,) = [found.entry(14)]
        assert (move["type"], move["target_id"]) == ("leaf", found.leaf_id)
    found = ReadSession(
        CodexReading(), HEAD, *lines, codex_event("thread_rolled_back", num_turns=0)
    )
    assert len(found.texts()) == 6


def test_a_turn_in_which_no_user_spoke_is_not_counted_by_a_rollback() -> None:
    review = [codex_event("task_started", turn_id="r"), codex_said("looks good", "assistant")]
    found = ReadSession(
        CodexReading(),
        HEAD,
        *codex_turn(1, "one", "a"),
        *codex_turn(2, "two", "b"),
        *review,
        codex_event("thread_rolled_back", num_turns=1),
    )
    assert found.texts() == ["user: one", "assistant: a"]


def test_a_turn_whose_mark_is_lost_begins_at_its_settings() -> None:
    """The user's words are no part of the turn before, of which a rollback would take too much."""
    compacted = codex_line("compacted", replacement_history=[])
    lost, *asked = codex_turn(3, "three", "c")
    found = ReadSession(
        CodexReading(),
        HEAD,
        *codex_turn(1, "one", "a"),
        codex_event("task_started", turn_id="t2"),
        compacted,
        codex_event("task_complete", turn_id="t2"),
        codex_line("turn_context", turn_id=lost["payload"]["turn_id"]),
        *asked,
        codex_event("thread_rolled_back", num_turns=1),
        *codex_turn(4, "four", "d"),
    )
    assert found.texts()[-2:] == ["user: four", "assistant: d"]
    assert not any("one" in text or "three" in text for text in found.texts())


def test_a_rollback_without_marks_of_turns_goes_by_the_prompts() -> None:
    for ask in (
        codex_event("user_message", message="x"),
        codex_event("item_completed", item={"type": "UserMessage"}),
    ):
        said = [codex_said("one"), ask, codex_said("a", "assistant"), codex_said("two"), ask]
        found = ReadSession(
            CodexReading(), HEAD, *said, codex_event("thread_rolled_back", num_turns=1)
        )
        assert found.texts() == ["user: one", "assistant: a"]


def test_a_prompt_without_an_item_behind_a_rollback_begins_where_the_event_is() -> None:
    ask, back = (
        codex_event("user_message", message="x"),
        codex_event("thread_rolled_back", num_turns=1),
    )
    found = ReadSession(
        CodexReading(), HEAD, *codex_turn(1, "one", "a"), codex_said("stray"), back, ask, back
    )
    assert (found.leaf_id, found.texts()) == (None, [])


def test_a_compaction_inside_a_dropped_turn_does_not_count() -> None:
    found = ReadSession(
        CodexReading(),
        HEAD,
        *codex_turn(1, "one", "a"),
        *codex_turn(2, "two", "b"),
        codex_line("compacted", replacement_history=[]),
        codex_event("thread_rolled_back", num_turns=1),
        *codex_turn(3, "three", "c"),
    )
    assert found.texts() == ["user: one", "assistant: a", "user: three", "assistant: c"]


def test_a_rollback_takes_the_turns_model_back() -> None:
    found = ReadSession(
        CodexReading(),
        HEAD,
        codex_line("turn_context", model="m1"),
        *codex_turn(1, "one", "a"),
        codex_event("task_started", turn_id="t2"),
        codex_line("turn_context", model="m2"),
        *codex_asked("two"),
        codex_event("thread_rolled_back", num_turns=1),
    )
    assert found.model == ("m1", "openai")
    found.take_all([codex_line("turn_context", model="m2", cwd="/q")])
    assert found.model == ("m2", "openai")
    # An equal model makes no entry in the tree; the folder of the turn counts all the same.
    found.take_all([codex_line("turn_context", model="m2", cwd="/r")])
    assert (found.types()[-2:], found.origin.cwd) == (["model_change", "turn_context"], "/r")


def test_an_aborted_turn_is_a_record_and_ends_its_answer() -> None:
    found = ReadSession(
        CodexReading(),
        HEAD,
        *codex_asked("go"),
        codex_said("half", "assistant"),
        codex_event("turn_aborted", reason="interrupted"),
        codex_said("again", "assistant"),
    )
    assert found.types()[4] == "event_msg.turn_aborted"
    assert found.texts() == ["user: go", "assistant: half", "assistant: again"]


# -- usage ----------------------------------------------------------------------------------------


def test_a_count_whose_total_did_not_move_counts_once_and_ends_no_answer() -> None:
    found = ReadSession(
        CodexReading(),
        HEAD,
        codex_said("hi"),
        codex_said("a", "assistant"),
        codex_tokens(30, sent=20, got=10),
        codex_said("b", "assistant"),
        codex_tokens(30, sent=20, got=10),
        codex_said("c", "assistant"),
        codex_tokens(35, sent=4, got=1),
        codex_tokens(5, sent=3, got=2),
    )
    assert found.usage == Usage(27, 13, 0, 0, 40)
    assert found.types()[3:] == [
        *("usage", "message", "event_msg.token_count", "message", "usage", "usage")
    ]
    assert found.texts() == ["user: hi", "assistant: a", "assistant: b + c"]


def test_counts_of_turns_older_than_the_thread_are_the_parents() -> None:
    older, newer = "019f4fff-0000-7000-8000-000000000001", "019f5001-0000-7000-8000-000000000001"
    lines = [
        HEAD,
        codex_event("task_started", turn_id=older),
        codex_said("a", "assistant"),
        codex_tokens(30, sent=20, got=10),
    ]
    found = ReadSession(CodexReading(), *lines)
    assert (found.usage, found.types()[3]) == (None, "event_msg.token_count")
    found.take_all([codex_line("turn_context", turn_id=newer), codex_tokens(35, sent=4, got=1)])
    assert found.usage == Usage(4, 1, 0, 0, 5)


def test_a_count_without_figures_is_a_record() -> None:
    found = ReadSession(
        CodexReading(),
        HEAD,
        codex_event("token_count", info=None),
        codex_event("token_count", rate_limits={}),
    )
    assert (found.types()[1:], found.usage) == (["event_msg.token_count"] * 2, None)


def test_tokens_that_a_request_read_from_the_cache_or_wrote_there_count_apart() -> None:
    last = {"input_tokens": 10, "cached_input_tokens": 4, "cache_write_input_tokens": 3}
    info = {"total_token_usage": {"total_tokens": 1}, "last_token_usage": last}
    found = ReadSession(CodexReading(), HEAD, codex_event("token_count", info=info))
    assert found.usage == Usage(3, 0, 4, 3, 10)


# -- records --------------------------------------------------------------------------------------


def test_lines_that_say_nothing_to_the_model_are_records_with_their_content() -> None:
    lines: list[Any] = [
        codex_said("rules", "developer"),
        codex_line("world_state", any=1),
        codex_line("inter_agent_communication", any=1),
        codex_item("ghost_snapshot"),
        codex_item("web_search_call", status="completed"),
        codex_event("task_complete", turn_id="t1"),
        {"timestamp": "2026-01-15T10:00:00.000Z", "payload": {}},
    ]
    found = ReadSession(CodexReading(), HEAD, *codex_asked("go"), *lines)
    assert found.types()[3:] == [
        "response_item.message",
        "world_state",
        "inter_agent_communication",
        "response_item.ghost_snapshot",
        "response_item.web_search_call",
        "event_msg.task_complete",
        "none",
    ]
    assert found.entry(5)["data"] == lines[1]
    assert (found.leaf_id, found.texts()) == ("line-2", ["user: go"])


@pytest.mark.parametrize("word", ["leaf", "message", "session", "usage", "compaction", "label"])
def test_a_word_of_codex_never_is_an_entry_of_ours(word: str) -> None:
    found = ReadSession(
        CodexReading(),
        HEAD,
        *codex_asked("go"),
        codex_line(word, usage={"input": 5}, target_id=None),
    )
    assert found.types()[-1] == f"codex.{word}"
    assert (found.leaf_id, found.usage) == ("line-2", None)


def test_a_bad_line_keeps_its_number() -> None:
    found = ReadSession(CodexReading(), HEAD, b"[]", b"{", b"", codex_said("hi"))
    assert (found.leaf_id, found.session.problem_count) == ("line-5", 2)


def test_lone_surrogates_and_newlines_in_arguments_stay_one_line() -> None:
    found = ReadSession(
        CodexReading(),
        HEAD,
        b'{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"\\ud83d!"}]}}',
        codex_item("function_call", name="t", arguments='{\n "a": "\\ud83d"\n}', call_id="c"),
    )
    assert found.session.problem_count == 0
    assert found.texts()[0] == "user: \ufffd!"


def test_a_reading_keeps_no_messages() -> None:
    def lines() -> Iterator[Any]:
        for at in range(200):
            yield from codex_turn(at, f"{at} " * 200, f"{at} " * 2000)
            name = f"{at} " * 500
            yield codex_item("function_call", name=name, arguments="{}", call_id=f"c{at}")
            yield codex_item("function_call_output", call_id=f"c{at}", output=f"{at} " * 2000)

    encoded = (json.dumps(line).encode() for line in lines())
    # 200 prompts of less than 1000 bytes each are kept for a compaction of the old form.
    assert bytes_kept(CodexReading(), encoded) < 250 * 1000


# -- laws -----------------------------------------------------------------------------------------


MIXED = spelled(
    HEAD,
    *codex_turn(1, "one", "a"),
    codex_tokens(9, sent=5, got=4),
    *codex_turn(2, "two", "b"),
    codex_line("compacted", message="sum"),
    codex_event("thread_rolled_back", num_turns=1),
    *codex_turn(3, "three", "c"),
    codex_line("compacted", replacement_history=[]),
    codex_line("turn_context", model="m"),
    codex_said("rules", "developer"),
)


@pytest.mark.parametrize("path", [*FILES, None], ids=lambda path: path and path.stem[-4:])
def test_lines_cut_mixed_doubled_and_unknown_break_no_law(path: Path | None) -> None:
    lines = MIXED if path is None else path.read_bytes().splitlines()
    check_reading(CodexReading, lines)
    for variant in variants(lines, str(path and path.stem), 120):
        found = check_reading(CodexReading, variant)
        assert found.lines == ReadSession(CodexReading(), *variant).lines
