"""Sessions of Claude Code, read a line at a time: each line is one entry, in its place at once."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, Raw

from sessiond.dialects.agents.claude_code import ClaudeCodeReading
from sessiond.dialects.native.dialect import NATIVE
from sessiond.dialects.usage import usage_in
from sessiond.model.entries import Compaction, CustomMessage, Leaf, Message, SessionInfoEntry
from sessiond.model.row import ModelName
from sessiond.model.usage import Usage
from tests.kit.agents import SAMPLES, claude_line
from tests.kit.claude import assistant, boundary, no_message, pin, result, summary
from tests.kit.lines import lines_in
from tests.kit.readings import ReadSession, read, variant
from tests.kit.sessions import text, tool_use

U = "c1a0de00-0000-4000-8000-0000000000"
SUMMARY = "This session is being continued from a previous conversation. Summary: "
BRANCH = SAMPLES / "claude-branch-compact.jsonl"
PARALLEL = SAMPLES / "claude-parallel-rewind.jsonl"
TORN = SAMPLES / "claude-anchor-child-torn.jsonl"
(SUBAGENT,) = (SAMPLES / "claude-subagent").glob("**/*.jsonl")
FILES = [BRANCH, PARALLEL, TORN, SUBAGENT]
VARIANTS = 60


def entry_at(session: ReadSession, number: int) -> Any:
    """Return the entry of a line by the line's number."""
    return session.entries[number - 1]


TALK = [
    claude_line(1, None, "a"),
    claude_line(2, 1, "b", "assistant"),
    claude_line(3, 2, "c"),
    claude_line(4, 3, "d", "assistant"),
]

# -- the samples -----------------------------------------------------------------------------------


def test_the_sample_with_a_branch_and_a_compaction() -> None:
    found = read(ClaudeCodeReading(), lines_in(BRANCH))
    assert found.leaf_id == f"{U}13"
    assert found.session.facts == {"auto_title": "Add ping command"}
    assert found.context() == [
        (f"{U}11", f"summary: {SUMMARY}ping was added, then made smaller."),
        (f"{U}08", "user: make it smaller"),
        (f"{U}09", "assistant: It is smaller now."),
        (f"{U}12", "user: now add a test"),
        (f"{U}13", "assistant: Test added."),
    ]
    assert found.session.usage == Usage(107, 205, 3200, 1570, 5082)
    assert found.problems() == []
    assert found.records() == [(11, "system.compact_boundary"), (15, "last-prompt")]
    compaction = entry_at(found, 12)
    assert isinstance(compaction, Compaction)
    assert (compaction.tokens_before, compaction.tokens_after) == (1480, 350)
    assert (compaction.parent_id, compaction.first_kept_entry_id) == (f"{U}09", f"{U}08")
    origin = found.reading.origin
    assert (origin.session_id, origin.cwd) == (
        "5e55a1d0-0000-4000-8000-000000000001",
        "/home/ann/ping",
    )
    assert origin.created_at == "2026-11-01T09:00:00.000Z"
    assert bytes(origin.facts["version"]) == b'"2.1.330"'
    assert found.session.first_message == "add a ping command"
    assert found.session.setting(found.session.model_refs[-2]) == ModelName("claude-sonnet-5")


def test_a_rewound_sibling_keeps_its_own_context() -> None:
    found = read(ClaudeCodeReading(), lines_in(BRANCH))
    assert [int(source[-2:]) for source, _ in found.context(f"{U}07")] == [1, 2, 4, 5, 6, 7]
    assert [int(source[-2:]) for source, _ in found.context(f"{U}09")] == [1, 2, 4, 5, 8, 9]
    # Before the compaction the context was that of the second branch.
    assert read(ClaudeCodeReading(), lines_in(BRANCH)[:10]).context() == found.context(f"{U}09")


def test_a_split_reply_is_one_message_whose_usage_counts_once() -> None:
    found = read(ClaudeCodeReading(), lines_in(BRANCH)[:4])
    assert found.texts() == [
        "user: add a ping command",
        'assistant: thinking + Bash toolu_01 {"command": "ls", "description": "List files"}',
        "result of Bash toolu_01: main.rs",
    ]
    whole = json.loads(lines_in(BRANCH)[2])["message"]["usage"]
    usage = found.session.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (
        whole["input_tokens"],
        whole["output_tokens"],
    )


def test_the_sample_with_parallel_results_and_an_explicit_pin() -> None:
    found = read(ClaudeCodeReading(), lines_in(PARALLEL))
    assert found.leaf_id == f"{U}26"
    assert found.session.facts == {"title": "two files"}
    calls = (
        f'Read toolu_2{n} {{"file_path": "/home/ann/ping/{name}.txt"}}'
        for n, name in ((1, "a"), (2, "b"))
    )
    before = [
        (f"{U}21", "user: read both files"),
        (f"{U}22", f"assistant: {' + '.join(calls)}"),
        (f"{U}24", "result of Read toolu_21: alpha"),
        (f"{U}25", "result of Read toolu_22 failed: no such file"),
        (f"{U}26", "assistant: a.txt says alpha; b.txt is missing."),
    ]
    assert found.context() == before
    assert found.session.usage == Usage(33, 170, 1880, 1020, 3103)
    assert entry_at(found, 10) == Leaf(
        id="line-10",
        parent_id=f"{U}28",
        timestamp="2026-11-01T09:31:04.000Z",
        target_id=f"{U}26",
        reason="rewind",
    )
    # What was rewound is in the tree.
    assert found.context(f"{U}28") == [
        *before,
        (f"{U}27", "user: create b.txt"),
        (f"{U}28", "assistant: Created b.txt."),
    ]
    assert read(ClaudeCodeReading(), lines_in(PARALLEL)[:9]).leaf_id == f"{U}28"


def test_the_sample_with_a_prompt_below_the_summary_and_a_torn_line() -> None:
    found = read(ClaudeCodeReading(), lines_in(TORN))
    assert (found.leaf_id, found.session.facts) == (f"{U}37", {})
    assert found.session.first_message == "what is 2+2"
    assert found.context() == [
        (f"{U}36", f"summary: {SUMMARY}sums."),
        (f"{U}33", "user: and 3+3"),
        (f"{U}34", "assistant: 6"),
        (f"{U}37", "user: and 4+4"),
    ]
    assert found.session.usage == Usage(16, 10, 500, 530, 1056)
    tail = TORN.read_bytes().split(b"\n")[-1]
    assert tail
    assert found.take(tail).entries[-1] is None


def test_the_file_of_a_subagent_is_a_conversation() -> None:
    found = read(ClaudeCodeReading(), lines_in(SUBAGENT))
    assert found.leaf_id == f"{U}44"
    assert [source[-2:] for source, _ in found.context()] == ["41", "42", "43", "44"]
    assert found.session.usage == Usage(11, 28, 300, 340, 679)
    assert found.records() == []
    assert bytes(found.reading.origin.facts["agentId"]) == b'"a1b2c3d4e5f6a7b8c"'


# -- answers, calls and results ---------------------------------------------------------------------


def test_each_line_of_an_answer_states_what_the_lines_before_did_not() -> None:
    lines: list[Any] = [claude_line(1, None, "hi")]
    for number, (sent, got) in enumerate([(5, 1), (5, 9), (5, 3)], 2):
        line = assistant(number, number - 1, text(str(number)), answer="m")
        line["message"]["usage"] = {"input_tokens": sent, "output_tokens": got}
        lines.append(line)
    found = ReadSession(ClaudeCodeReading(), *lines)
    stated = [json.loads(line)["message"].get("usage") for line in found.lines[1:]]
    assert [usage and (usage["input"], usage["output"]) for usage in stated] == [
        (5, 1),
        (0, 8),
        None,
    ]
    assert found.session.usage == Usage(5, 9, 0, 0, 14)
    assert found.texts() == ["user: hi", "assistant: 2 + 3 + 4"]
    _, (_, answer) = found.messages()
    usage = usage_in(Raw(json.dumps(answer["usage"]).encode()))
    assert usage == Usage(5, 9, 0, 0, 14)


def test_caches_that_each_line_of_an_answer_states_count_once() -> None:
    stated = {
        "input_tokens": 5,
        "output_tokens": 1,
        "cache_read_input_tokens": 300,
        "cache_creation_input_tokens": 20,
    }
    lines: list[Any] = [claude_line(1, None, "hi")]
    for number in (2, 3):
        line = assistant(number, number - 1, text(str(number)), answer="m")
        line["message"]["usage"] = stated
        lines.append(line)
    found = ReadSession(ClaudeCodeReading(), *lines)
    assert found.session.usage == Usage(5, 1, 300, 20, 326)


def test_parallel_results_are_on_the_path_wherever_the_file_hangs_them() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        claude_line(1, None, "hi"),
        assistant(2, 1, tool_use("t1"), answer="m"),
        result(3, 2, "t1", "one"),
        assistant(4, 2, tool_use("t2"), answer="m"),
        assistant(5, 4, tool_use("t3"), answer="m"),
        result(6, 5, "t3", "three"),
        result(7, 4, "t2", "two"),
        claude_line(8, 6, "done", "assistant"),
    )
    assert found.texts() == [
        "user: hi",
        "assistant: Read t1 {} + Read t2 {} + Read t3 {}",
        "result of Read t1: one",
        "result of Read t2: two",
        "result of Read t3: three",
        "assistant: done",
    ]
    assert found.problems() == []


def test_words_beside_a_result_are_in_the_same_entry() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        claude_line(1, None, "hi"),
        assistant(2, 1, tool_use("t1"), tool_use("t2"), answer="m"),
        result(
            3,
            2,
            "t2",
            "two",
            {"type": "tool_result", "tool_use_id": "t1", "content": "one", "is_error": True},
            text("and stop"),
        ),
    )
    assert found.context() == [
        ("u-1", "user: hi"),
        ("u-2", "assistant: Read t1 {} + Read t2 {}"),
        ("u-3", "result of Read t1 failed: one"),
        ("u-3", "result of Read t2: two"),
        ("u-3", "user: and stop"),
    ]


def test_a_result_of_a_call_that_is_not_there_stands_where_the_file_says() -> None:
    found = ReadSession(
        ClaudeCodeReading(), claude_line(1, None, "hi"), result(2, 1, "t9"), claude_line(3, 2, "on")
    )
    assert found.texts() == ["user: hi", "result of  t9: x", "user: on"]


@pytest.mark.parametrize("lost", [2, 3, 4])
def test_behind_a_lost_call_the_other_calls_and_all_results_are_on_the_path(lost: int) -> None:
    lines = {
        1: claude_line(1, None, "hi"),
        2: assistant(2, 1, tool_use("t2"), answer="m"),
        3: assistant(3, 2, tool_use("t3"), answer="m"),
        4: assistant(4, 3, tool_use("t4"), answer="m"),
        5: result(5, 4, "t4", "four"),
        6: result(6, 3, "t3", "three"),
        7: result(7, 2, "t2", "two"),
        8: claude_line(8, 7, "done", "assistant"),
    }
    del lines[lost]
    found = ReadSession(ClaudeCodeReading(), *lines.values())
    said = found.texts()
    assert (said[0], said[-1]) == ("user: hi", "assistant: done")
    left = [f"Read t{number} {{}}" for number in (2, 3, 4) if number != lost]
    assert said[1] == "assistant: " + " + ".join(left)
    assert sorted(one.rsplit(" ", 1)[-1] for one in said[2:-1]) == ["four", "three", "two"]
    # The line says what the file says, and what the path took.
    orphan = next(one for one in map(json.loads, found.lines) if one["id"] == f"u-{9 - lost}")
    assert orphan["parent_id"] == f"u-{lost}"
    assert orphan["resolved_parent_id"] != f"u-{lost}"


def test_a_second_result_of_a_call_is_on_the_path_too() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        claude_line(1, None, "hi"),
        assistant(2, 1, tool_use("t1"), answer="m"),
        result(3, 2, "t1", "one", isMeta=True),
        result(4, 2, "t1", "two"),
        claude_line(5, 3, "on"),
    )
    assert found.texts()[2:] == ["result of Read t1: one", "result of  t1: two", "user: on"]
    assert isinstance(entry_at(found, 3), Message)


def test_a_prompt_that_was_queued_is_a_message_and_no_result_is_lost_below_it() -> None:
    queued = {"type": "queued_command", "prompt": "stop"}
    found = ReadSession(
        ClaudeCodeReading(),
        claude_line(1, None, "hi"),
        assistant(2, 1, tool_use("t1"), answer="m"),
        assistant(3, 2, tool_use("t2"), answer="m"),
        result(4, 2, "t1"),
        no_message(5, 4, "attachment", attachment=queued),
        no_message(6, 5, "attachment", attachment={"type": "file"}),
        result(7, 3, "t2"),
        claude_line(8, 7, "done", "assistant"),
    )
    assert found.texts() == [
        "user: hi",
        "assistant: Read t1 {} + Read t2 {}",
        "result of Read t1: x",
        "result of Read t2: x",
        "user: stop",
        "assistant: done",
    ]
    assert found.records() == [(6, "attachment.file")]


def test_a_prompt_that_was_queued_behind_all_results_has_siblings() -> None:
    queued = no_message(4, 3, "attachment", attachment={"type": "queued_command", "prompt": "q"})
    found = ReadSession(
        ClaudeCodeReading(),
        claude_line(1, None, "hi"),
        assistant(2, 1, tool_use("t1"), answer="m"),
        result(3, 2, "t1"),
        queued,
        claude_line(5, 3, "rewound"),
    )
    assert entry_at(found, 5).parent_id == "u-3"


def test_a_prompt_that_was_queued_within_an_answer_stays_on_its_path() -> None:
    queued = no_message(3, 2, "attachment", attachment={"type": "queued_command", "prompt": "q"})
    found = ReadSession(
        ClaudeCodeReading(),
        claude_line(1, None, "hi"),
        assistant(2, 1, text("a"), answer="m"),
        queued,
        assistant(4, 3, text("b"), answer="m"),
        claude_line(5, 4, "on"),
    )
    assert found.texts() == ["user: hi", "assistant: a + b", "user: q", "user: on"]


def test_an_answer_that_is_told_again_on_another_branch_is_on_both() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        claude_line(1, None, "hi"),
        assistant(2, 1, tool_use("t1"), answer="m"),
        result(3, 2, "t1", "one"),
        claude_line(4, None, "hi"),
        assistant(5, 4, tool_use("t1"), answer="m"),
        result(6, 5, "t1", "again"),
    )
    assert found.texts("u-3") == ["user: hi", "assistant: Read t1 {}", "result of Read t1: one"]
    again = ["user: hi", "assistant: Read t1 {}", "result of Read t1: again"]
    assert found.texts("u-6") == again
    # What follows stays on its own branch; the answer may go on there.
    found.take_all([claude_line(7, 3, "on"), assistant(8, 5, tool_use("t2"), answer="m")])
    assert found.texts("u-7")[2:] == ["result of Read t1: one", "user: on"]
    assert entry_at(found, 8).parent_id == "u-6"
    assert entry_at(found.take_all([claude_line(9, 2, "off")]), 9).parent_id == "u-3"
    assert entry_at(found.take_all([claude_line(10, 5, "end")]), 10).parent_id == "u-8"


def test_a_line_of_an_answer_with_a_missing_parent_goes_on_with_the_answer() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        claude_line(1, None, "hi"),
        assistant(2, 1, text("a"), answer="m"),
        assistant(4, 3, text("b"), answer="m"),
    )
    assert found.texts() == ["user: hi", "assistant: a + b"]


def test_a_failed_call_of_the_model_names_no_model() -> None:
    failed = assistant(2, 1, text("API Error"), answer="m", isApiErrorMessage=True)
    failed["message"]["model"] = "<synthetic>"
    found = ReadSession(ClaudeCodeReading(), claude_line(1, None, "hi"), failed)
    assert found.session.model_refs[2] == 0
    reading = found.dialect.reading(found.lines[1])
    assert reading is not None
    assert reading.stop_reason == "error"


def test_images_come_with_the_words_beside_them() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    line = claude_line(1, None, "")
    line["message"]["content"] = [
        text("look"),
        {"type": "image", "source": source},
    ]
    found = ReadSession(ClaudeCodeReading(), line)
    ((_, message),) = found.messages()
    image = {"type": "image", "data": source["data"], "mimeType": "image/png"}
    assert message["content"] == [text("look"), image]


# -- leaf, titles, bookkeeping ----------------------------------------------------------------------


def test_a_pin_moves_the_leaf_until_a_new_line_of_the_conversation() -> None:
    found = ReadSession(ClaudeCodeReading(), *TALK, pin("u-2", explicit=True, rewound=True))
    assert found.leaf_id == "u-2"
    found.take_all([claude_line(5, 2, "e")])
    assert (found.leaf_id, found.texts()) == ("u-5", ["user: a", "assistant: b", "user: e"])
    # A pin of the leaf, or of a line that is not there, moves nothing.
    found.take_all([pin("u-5"), pin("u-77", explicit=True), pin(None)])
    assert found.records() == [(7, "last-prompt"), (8, "last-prompt"), (9, "last-prompt")]
    assert found.leaf_id == "u-5"
    assert entry_at(found.take_all([pin("u-3")]), 10).target_id == "u-3"


def test_a_pin_of_a_lost_line_means_the_message_before_the_gap() -> None:
    found = ReadSession(
        ClaudeCodeReading(), *TALK[:2], claude_line(5, 4, "on"), pin("u-4", explicit=True)
    )
    assert (found.leaf_id, found.texts()) == ("u-2", ["user: a", "assistant: b"])


def test_an_explicit_pin_of_nothing_empties_the_context() -> None:
    found = ReadSession(ClaudeCodeReading(), *TALK, pin(None, explicit=True, rewound=True))
    assert (found.leaf_id, found.context()) == (None, [])
    assert entry_at(found, 5).target_id is None
    found.take_all([claude_line(5, None, "e")])
    assert found.texts() == ["user: e"]


def test_a_pin_of_an_attachment_means_the_message_above_it() -> None:
    note = no_message(5, 2, "attachment", attachment={"type": "file"})
    found = ReadSession(ClaudeCodeReading(), *TALK, note, no_message(6, 5, "progress"), pin("u-6"))
    assert found.leaf_id == "u-2"


def test_a_pin_of_a_call_means_the_answer_with_its_results() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        claude_line(1, None, "hi"),
        assistant(2, 1, tool_use("t1"), answer="m"),
        assistant(3, 2, tool_use("t2"), answer="m"),
        result(4, 2, "t1"),
        result(5, 3, "t2"),
        claude_line(6, 5, "on"),
        pin("u-4", explicit=True),
    )
    assert found.leaf_id == "u-5"


def test_a_custom_title_and_an_ai_title_are_kept_apart() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        {"type": "custom-title", "customTitle": "Mine", "sessionId": "s"},
        {"type": "ai-title", "aiTitle": "Made", "sessionId": "s"},
        {"type": "tag", "tag": "work", "sessionId": "s"},
    )
    assert found.session.facts == {"title": "Mine", "auto_title": "Made", "tags": ["work"]}
    found.take_all([{"type": "tag", "tag": ""}, {"type": "custom-title", "customTitle": ""}])
    assert found.session.facts == {"title": None, "auto_title": "Made", "tags": None}


def test_a_legacy_summary_is_a_title_unless_a_newer_one_was_made() -> None:
    old = {"type": "summary", "summary": "Old words", "leafUuid": "u-9"}
    found = ReadSession(ClaudeCodeReading(), old, claude_line(1, None, "hi"))
    assert found.session.facts == {"auto_title": "Old words"}
    assert entry_at(found, 1) == SessionInfoEntry(
        id="line-1", parent_id=None, auto_title="Old words"
    )
    found.take_all([{"type": "ai-title", "aiTitle": "Made"}, old])
    assert found.session.facts == {"auto_title": "Made"}
    assert found.records() == [(4, "summary")]


def test_bookkeeping_becomes_records_with_the_agents_word_and_its_members() -> None:
    line = {"type": "mode", "mode": "plan", "sessionId": "s"}
    found = ReadSession(
        ClaudeCodeReading(),
        *TALK[:2],
        line,
        {"type": "brand-new"},
        {"no": "type"},
        {"type": "message"},
    )
    assert found.records() == [
        (3, "mode"),
        (4, "brand-new"),
        (5, "none"),
        (6, "claude-code.message"),
    ]
    assert json.loads(bytes(entry_at(found, 3).fields["data"])) == line
    assert (entry_at(found, 3).id, entry_at(found, 3).parent_id) == ("line-3", "u-2")
    assert entry_at(found, 3).timestamp == entry_at(found, 2).timestamp
    assert found.leaf_id == "u-2"


@pytest.mark.parametrize(
    ("said", "more", "kind"),
    [
        ("Caveat", {"isMeta": True}, "claude-code.meta"),
        ("<local-command-stdout>ok</local-command-stdout>", {}, "claude-code.event"),
        ("<command-name>/clear</command-name>", {}, "claude-code.command"),
        ("<command-name>/fix</command-name><command-args>12</command-args>", {}, None),
        ("words", {}, None),
    ],
)
def test_words_of_the_harness_are_no_prompt(said: str, more: Any, kind: str | None) -> None:
    found = ReadSession(
        ClaudeCodeReading(), claude_line(1, None, said, **more), claude_line(2, 1, "hi")
    )
    entry = entry_at(found, 1)
    if kind is None:
        assert isinstance(entry, Message)
        assert found.session.first_message == said
    else:
        assert isinstance(entry, CustomMessage)
        assert (entry.custom_type, entry.display) == (kind, kind != "claude-code.meta")
        assert found.session.first_message == "hi"
    assert [text.split(": ")[1] for text in found.texts()] == [said, "hi"]


# -- the tree ---------------------------------------------------------------------------------------


def test_lines_without_words_link_what_is_below_them_to_what_is_above() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        *TALK[:2],
        no_message(5, 2, "system", subtype="turn_duration"),
        no_message(6, 5, "progress"),
        claude_line(7, 6, "on"),
    )
    assert entry_at(found, 5).parent_id == "u-2"
    assert found.records() == [(3, "system.turn_duration"), (4, "progress")]
    assert (entry_at(found, 3).id, entry_at(found, 3).parent_id) == ("u-5", "u-2")


def test_sidechains_and_teams_in_a_main_file_are_records() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        *TALK[:2],
        claude_line(11, None, "task", isSidechain=True),
        claude_line(12, 11, "found", "assistant", isSidechain=True),
        claude_line(13, 2, "team talk", teamName="blue"),
        claude_line(14, 13, "on", teamName=None),
    )
    assert found.records() == [(3, "sidechain.user"), (4, "sidechain.assistant"), (5, "team.user")]
    assert found.texts() == ["user: a", "assistant: b", "user: on"]
    main = ReadSession(ClaudeCodeReading(), claude_line(11, None, "task", isSidechain=True), *TALK)
    assert main.texts() == ["user: task"]
    assert main.records()[0][1] == "sidechain.user"


def test_the_path_goes_on_before_a_missing_line_and_the_entry_names_that_line() -> None:
    found = ReadSession(
        ClaudeCodeReading(), *TALK[:2], claude_line(5, 4, "on"), no_message(6, 8, "progress")
    )
    assert entry_at(found, 3).parent_id == "u-4"
    assert found.problems() == [(3, "orphan")]
    assert found.texts() == ["user: a", "assistant: b", "user: on"]
    assert json.loads(found.lines[2])["resolved_parent_id"] == "u-2"
    found.take_all([claude_line(7, 6, "below a link")])
    assert entry_at(found, 5).parent_id == "u-8"
    assert found.problems() == [(3, "orphan"), (5, "orphan")]
    assert found.texts() == ["user: a", "assistant: b", "user: on", "user: below a link"]


def test_lines_that_name_one_missing_line_are_a_fork_before_it() -> None:
    found = ReadSession(
        ClaudeCodeReading(), *TALK[:2], claude_line(5, 4, "on"), claude_line(7, 4, "or so")
    )
    assert found.texts() == ["user: a", "assistant: b", "user: or so"]
    assert found.texts("u-5") == ["user: a", "assistant: b", "user: on"]


def test_a_line_below_a_missing_one_at_the_beginning_is_a_root() -> None:
    found = ReadSession(ClaudeCodeReading(), claude_line(2, 1, "hi"), claude_line(3, 2, "on"))
    assert (found.texts(), found.problems()) == (["user: hi", "user: on"], [(1, "orphan")])
    assert "resolved_parent_id" not in json.loads(found.lines[0])


def test_a_worker_never_decides_where_the_path_goes_on() -> None:
    aside = claude_line(11, 4, "task", isSidechain=True)
    found = ReadSession(
        ClaudeCodeReading(),
        TALK[0],
        aside,
        TALK[1],
        claude_line(5, 4, "on"),
        claude_line(12, 11, "x"),
    )
    assert found.texts("u-5") == ["user: a", "assistant: b", "user: on"]


def test_behind_a_rewind_the_path_goes_on_at_the_place_of_the_rewind() -> None:
    found = ReadSession(
        ClaudeCodeReading(), *TALK, pin("u-2", explicit=True, rewound=True), claude_line(9, 8, "on")
    )
    assert found.texts() == ["user: a", "assistant: b", "user: on"]


def test_a_parent_that_stands_behind_its_child_in_the_file_is_its_parent() -> None:
    first, second, third, fourth = TALK
    for lines in ([first, third, second, fourth], [fourth, third, second, first]):
        found = ReadSession(ClaudeCodeReading(), *lines)
        assert found.lines == ReadSession(ClaudeCodeReading(), *TALK).lines
        assert found.problems() == []


def test_a_parent_that_comes_when_its_child_was_served_changes_nothing() -> None:
    found = ReadSession(ClaudeCodeReading(), *TALK[:2]).take_all([claude_line(5, 4, "on")])
    served = list(found.lines)
    found.take_all([claude_line(4, 1, "late"), claude_line(6, 5, "then")])
    assert found.lines[: len(served)] == served
    assert found.texts() == ["user: a", "assistant: b", "user: on", "user: then"]


def test_a_link_whose_parent_came_later_leads_to_it() -> None:
    late = no_message(6, 5, "progress")
    found = ReadSession(
        ClaudeCodeReading(), *TALK[:2], late, claude_line(5, 2, "c"), claude_line(7, 6, "below")
    )
    assert found.texts() == ["user: a", "assistant: b", "user: c", "user: below"]
    assert found.problems() == []


def test_links_in_a_circle_have_nothing_above_them() -> None:
    links = [no_message(5, 6, "progress"), no_message(6, 5, "progress")]
    for own in (links, [no_message(5, 5, "progress")]):
        found = ReadSession(ClaudeCodeReading(), *TALK, *own, claude_line(7, 5, "on"))
        assert (found.texts(), found.problems()) == (["user: on"], [])


def test_a_line_that_names_itself_stands_below_the_line_before() -> None:
    found = ReadSession(ClaudeCodeReading(), *TALK, claude_line(5, 5, "on"))
    assert found.texts() == [*ReadSession(ClaudeCodeReading(), *TALK).texts(), "user: on"]


def test_a_missing_parent_is_never_taken_for_an_id_that_was_made_here() -> None:
    copies = [TALK[0], TALK[0], {"type": "mode"}]
    for name in ("u-1.2", "line-3"):
        found = ReadSession(
            ClaudeCodeReading(), *copies, claude_line(5, None, "on") | {"parentUuid": name}
        )
        assert found.texts() == ["user: a", "user: on"]
        assert entry_at(found, 4).parent_id == "u-1"


def test_a_circle_of_parents_ends() -> None:
    found = ReadSession(
        ClaudeCodeReading(), claude_line(1, 2, "hi"), claude_line(2, 1, "hello", "assistant")
    )
    assert found.texts() == ["user: hi", "assistant: hello"]


def test_a_line_that_is_written_again_is_a_record() -> None:
    found = ReadSession(
        ClaudeCodeReading(), *TALK, claude_line(3, 2, "c"), claude_line(5, 3, "below")
    )
    assert found.records() == [(5, "copy.user")]
    assert entry_at(found, 5).id == "u-3.5"
    assert found.texts() == ["user: a", "assistant: b", "user: c", "user: below"]


def test_a_copy_whose_parent_came_later_is_a_record() -> None:
    late = claude_line(2, 1, "hello", "assistant")
    found = ReadSession(ClaudeCodeReading(), late, claude_line(1, None, "hi"), late)
    assert found.records() == [(3, "copy.assistant")]


def test_another_line_with_a_known_uuid_is_an_entry_of_its_own() -> None:
    later = claude_line(3, 2, "other") | {"timestamp": "2026-01-15T11:00:00.000Z"}
    assert ReadSession(ClaudeCodeReading(), *TALK, later).texts() == [
        "user: a",
        "assistant: b",
        "user: other",
    ]
    later["parentUuid"] = "u-1"
    found = ReadSession(ClaudeCodeReading(), *TALK, later, claude_line(5, 3, "below"))
    assert entry_at(found, 5).id == "u-3.5"
    assert found.texts() == ["user: a", "user: other", "user: below"]
    assert found.texts("u-4") == ["user: a", "assistant: b", "user: c", "assistant: d"]
    assert found.problems() == []


def test_uuids_that_are_no_ids_of_entries_get_the_number_of_the_line() -> None:
    first = claude_line(1, None, "hi") | {"uuid": "not an id"}
    second = claude_line(2, None, "on") | {"parentUuid": "not an id", "uuid": "line-1"}
    found = ReadSession(ClaudeCodeReading(), first, second)
    assert [entry_at(found, number).id for number in (1, 2)] == ["line-1", "line-2"]
    assert found.texts() == ["user: hi", "user: on"]


def test_a_bad_line_keeps_its_number() -> None:
    found = ReadSession(ClaudeCodeReading(), b"{half", b"\xff", b"[]", b"", {"type": "mode"})
    assert found.entries[:4] == [None] * 4
    assert entry_at(found, 5).id == "line-5"


def test_half_a_surrogate_pair_is_no_error() -> None:
    half = b'{"type":"user","uuid":"u-1","message":{"role":"user","content":"a\\ud83d"}}'
    found = ReadSession(ClaudeCodeReading(), half, b'{"type":"note","text":"\\ud83d"}')
    assert found.texts() == ["user: a\ufffd"]
    assert found.records() == [(2, "note")]
    assert b'"\\ud83d"' in found.lines[1]


# -- compactions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("below", [4, 6, 7])
def test_what_follows_a_compaction_stands_below_it_in_both_shapes(below: int) -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        *TALK,
        boundary(5, 3, 4),
        no_message(7, 5, "attachment", attachment={"type": "file"}),
        summary(6, 7),
        claude_line(8, below, "e"),
    )
    assert found.context() == [
        ("u-6", "summary: short"),
        ("u-3", "user: c"),
        ("u-4", "assistant: d"),
        ("u-8", "user: e"),
    ]
    assert found.problems() == []


@pytest.mark.parametrize("uuids", [(2, 3, 4), (1, 2, 4)])
def test_what_hangs_on_any_kept_line_stands_below_the_compaction(uuids: tuple[int, ...]) -> None:
    found = ReadSession(
        ClaudeCodeReading(), *TALK, boundary(5, *uuids), summary(6, 5), claude_line(7, 2, "e")
    )
    assert entry_at(found, 7).parent_id == "u-6"
    assert [source[-2:] for source, _ in found.context()] == [
        "-6",
        *(f"-{number}" for number in uuids),
        "-7",
    ]
    assert (
        ReadSession(ClaudeCodeReading(), *TALK, boundary(5, 4), summary(6, 5), pin("u-3")).leaf_id
        == "u-3"
    )
    assert (
        ReadSession(
            ClaudeCodeReading(), *TALK, boundary(5, 2, 4), summary(6, 5), pin("u-3")
        ).leaf_id
        == "u-3"
    )
    assert (
        ReadSession(
            ClaudeCodeReading(), *TALK, boundary(5, 3, 4), summary(6, 5), pin("u-3")
        ).leaf_id
        == "u-6"
    )


def test_a_segment_says_what_a_compaction_keeps() -> None:
    lines = [*TALK]
    segment = {"headUuid": "u-3", "anchorUuid": "u-6", "tailUuid": "u-4"}
    found = ReadSession(
        ClaudeCodeReading(), *TALK, boundary(5, preservedSegment=segment), summary(6, 5)
    )
    assert found.texts() == ["summary: short", "user: c", "assistant: d"]
    # Without its head the segment begins below the head.
    del lines[2]
    found = ReadSession(
        ClaudeCodeReading(), *lines, boundary(5, preservedSegment=segment), summary(6, 5)
    )
    assert found.texts() == ["summary: short", "assistant: d"]
    # Where no line names the head it begins with the file; without its tail nothing is kept.
    segment["headUuid"] = "u-0"
    found = ReadSession(
        ClaudeCodeReading(), *TALK, boundary(5, preservedSegment=segment), summary(6, 5)
    )
    assert len(found.texts()) == 5
    assert json.loads(bytes(entry_at(found, 6).details)) == {"missing": ["u-0"]}
    # A segment that begins within an answer has all of the answer.
    parts = [assistant(n, n - 1, text(str(n)), answer="m") for n in (2, 3, 4)]
    segment["headUuid"] = "u-3"
    found = ReadSession(
        ClaudeCodeReading(), TALK[0], *parts, boundary(5, preservedSegment=segment), summary(6, 5)
    )
    assert found.texts() == ["summary: short", "assistant: 2 + 3 + 4"]
    segment |= {"headUuid": "u-3", "tailUuid": "u-0"}
    found = ReadSession(
        ClaudeCodeReading(), *TALK, boundary(5, preservedSegment=segment), summary(6, 5)
    )
    assert found.texts() == ["summary: short"]


def test_a_compaction_that_keeps_parts_keeps_only_them() -> None:
    found = ReadSession(
        ClaudeCodeReading(), *TALK, boundary(5, 1, 4, 77), summary(6, 5), claude_line(7, 4, "e")
    )
    assert found.texts() == ["summary: short", "user: a", "assistant: d", "user: e"]
    details = json.loads(bytes(entry_at(found, 6).details))
    assert details == {"kept": ["u-1", "u-4"], "missing": ["u-77"]}
    # Lines of another branch are named, although no context has them.
    found = ReadSession(
        ClaudeCodeReading(), *TALK, claude_line(8, 1, "b"), boundary(5, 4, 8), summary(6, 5)
    )
    assert json.loads(bytes(entry_at(found, 7).details)) == {"kept": ["u-4", "u-8"]}
    assert found.texts() == ["summary: short", "user: b"]


def test_a_kept_line_of_an_answer_keeps_the_answer_with_its_results() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        *TALK[:1],
        assistant(2, 1, text("look"), answer="m"),
        assistant(3, 2, tool_use("t1"), answer="m"),
        assistant(4, 3, tool_use("t2"), answer="m"),
        result(5, 3, "t1"),
        result(6, 4, "t2"),
        boundary(7, 3),
        summary(8, 7),
        claude_line(9, 8, "on"),
    )
    answer = [
        "assistant: look + Read t1 {} + Read t2 {}",
        "result of Read t1: x",
        "result of Read t2: x",
    ]
    assert found.texts() == ["summary: short", *answer, "user: on"]
    assert entry_at(found, 8).details is UNSET
    # So it is where only parts of the path are kept.
    found.take_all([boundary(10, 3, 9), summary(11, 10)])
    assert found.texts() == ["summary: short", *answer, "user: on"]
    found.take_all([claude_line(12, 9, "and"), boundary(13, 4, 12), summary(14, 13)])
    assert found.texts() == ["summary: short", *answer, "user: and"]


def test_a_result_behind_a_compaction_stands_below_it() -> None:
    segment = {"headUuid": "u-3", "tailUuid": "u-4"}
    found = ReadSession(
        ClaudeCodeReading(),
        *TALK[:3],
        assistant(4, 3, tool_use("t1"), tool_use("t2"), answer="m"),
        boundary(5, preservedSegment=segment),
        summary(6, 5),
        result(7, 4, "t1"),
        result(8, 4, "t2"),
        claude_line(9, 7, "done", "assistant"),
    )
    assert found.texts() == [
        "summary: short",
        "user: c",
        "assistant: Read t1 {} + Read t2 {}",
        "result of Read t1: x",
        "result of Read t2: x",
        "assistant: done",
    ]


def test_without_kept_messages_the_summary_stands_alone() -> None:
    before = boundary(5) | {"logicalParentUuid": "u-2"}
    found = ReadSession(ClaudeCodeReading(), *TALK, before, summary(6, 5), claude_line(7, 6, "e"))
    assert found.texts() == ["summary: short", "user: e"]
    assert entry_at(found, 6).parent_id == "u-2"
    # The line before is the leaf where the boundary names a line that is not there.
    before["logicalParentUuid"] = "u-77"
    assert (
        entry_at(ReadSession(ClaudeCodeReading(), *TALK, before, summary(6, 5)), 6).parent_id
        == "u-4"
    )


def test_a_leaf_before_a_compaction_has_the_old_context() -> None:
    found = ReadSession(
        ClaudeCodeReading(), *TALK, boundary(5, 4), summary(6, 5), pin("u-2", explicit=True)
    )
    assert found.texts() == ["user: a", "assistant: b"]
    # The last kept line has the summary above it.
    found.take_all([pin("u-4", explicit=True)])
    assert found.texts() == ["summary: short", "assistant: d"]


def test_a_second_compaction_may_keep_lines_from_before_the_first_and_write_them_again() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        *TALK,
        boundary(5, 3, 4),
        summary(6, 5),
        claude_line(7, 4, "e"),
        claude_line(8, 7, "f", "assistant"),
        claude_line(4, 3, "d", "assistant"),
        boundary(9, 5, 4, 7, 8),
        summary(10, 4),
        claude_line(11, 8, "g"),
    )
    assert found.records() == [
        (5, "system.compact_boundary"),
        (9, "copy.assistant"),
        (10, "system.compact_boundary"),
    ]
    assert found.context() == [
        ("u-10", "summary: short"),
        ("u-4", "assistant: d"),
        ("u-7", "user: e"),
        ("u-8", "assistant: f"),
        ("u-11", "user: g"),
    ]
    assert entry_at(found, 11).details is UNSET


def test_a_kept_line_that_is_written_again_below_the_summary_is_there_once() -> None:
    again = claude_line(4, 6, "d", "assistant")
    found = ReadSession(
        ClaudeCodeReading(), *TALK, boundary(5, 3, 4), summary(6, 5), again, claude_line(7, 4, "e")
    )
    assert found.texts() == ["summary: short", "user: c", "assistant: d", "user: e"]


@pytest.mark.parametrize("lost", range(8))
def test_of_kept_lines_that_are_written_again_one_may_be_lost(lost: int) -> None:
    part = claude_line(5, 4, "e", "assistant")
    part["message"]["id"] = "msg_4"
    kept = [
        claude_line(3, 2, "c"),
        claude_line(4, 3, "d", "assistant"),
        part,
        claude_line(8, 5, "f"),
    ]
    first, again = kept[:], kept[:]
    (first if lost < 4 else again)[lost % 4] = {"type": "mode"}
    found = ReadSession(
        ClaudeCodeReading(),
        *TALK[:2],
        *first[:3],
        *(boundary(6, 3, 4, 5) | {"logicalParentUuid": "u-5"}, summary(7, 6)),
        first[3],
        *(boundary(9, 3, 4, 5, 8) | {"logicalParentUuid": "u-8"}, summary(10, 9)),
        *again,
        claude_line(11, 10, "g"),
    )
    talk = ["summary: short", "user: c", "assistant: d + e", "user: f", "user: g"]
    assert found.texts() == talk


def test_below_a_boundary_without_a_summary_begins_a_new_conversation() -> None:
    found = ReadSession(ClaudeCodeReading(), *TALK, boundary(5), claude_line(6, 5, "e"))
    assert (found.texts(), found.problems()) == (["user: e"], [])
    assert ReadSession(ClaudeCodeReading(), *TALK, boundary(5), pin("u-5")).leaf_id == "u-4"


def test_a_summary_without_a_boundary_is_a_compaction_that_keeps_nothing() -> None:
    found = ReadSession(ClaudeCodeReading(), *TALK, summary(6, 4), claude_line(7, 6, "e"))
    assert found.texts() == ["summary: short", "user: e"]
    assert entry_at(found, 5).parent_id == "u-4"
    assert entry_at(ReadSession(ClaudeCodeReading(), *TALK, summary(6, 77)), 5).parent_id == "u-77"


def test_two_compactions_that_keep_the_same_lines_have_their_own_contexts() -> None:
    found = ReadSession(
        ClaudeCodeReading(),
        *TALK,
        boundary(5, 3, 4),
        summary(6, 5),
        boundary(7, 4),
        summary(8, 7),
        claude_line(9, 4, "e"),
    )
    assert found.texts() == ["summary: short", "assistant: d", "user: e"]
    found.take_all([claude_line(10, 6, "off")])
    assert found.texts() == ["summary: short", "user: c", "assistant: d", "user: off"]


# -- laws -------------------------------------------------------------------------------------------


def has_late_parent(lines: list[bytes]) -> bool:
    """Return whether a line stands before the line that it names as its parent."""
    seen: set[str] = set()
    missed: set[str] = set()
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            seen.add(found.get("uuid") or "")
            parent = found.get("parentUuid") or found.get("logicalParentUuid")
            if parent and parent not in seen:
                missed.add(parent)
    return bool(missed & seen)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem[-12:])
def test_each_prefix_read_afresh_gives_what_reading_on_gives(path: Path) -> None:
    chance = random.Random(path.stem)
    for data in [path.read_bytes(), *(variant(path.read_bytes(), chance) for _ in range(8))]:
        lines = data.split(b"\n")
        growing = read(ClaudeCodeReading(), [])
        for end, line in enumerate(lines, 1):
            if has_late_parent(lines[:end]):
                # A file that grew to this point was served with other parents.
                break
            growing.take(line)
            said = [
                (
                    found.lines,
                    found.leaf_id,
                    found.session.facts,
                    found.session.usage,
                    found.context(),
                    found.session.problems,
                    found.reading.origin,
                )
                for found in (growing, read(ClaudeCodeReading(), lines[:end]))
            ]
            assert said[0] == said[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem[-12:])
def test_changed_files_give_an_entry_for_each_object_and_no_id_twice(path: Path) -> None:
    chance = random.Random(f"{path.stem} again")
    for _ in range(VARIANTS):
        found = read(ClaudeCodeReading(), variant(path.read_bytes(), chance).split(b"\n"))
        given = [one for one in found.entries if one is not None]
        ids = [one.id for one in given]
        assert len(set(ids)) == len(ids)
        assert {one.kind for one in found.session.problems} <= {"bad_line", "orphan"}
        for entry, line in zip(found.entries, found.lines, strict=True):
            if entry is not None:
                row = found.dialect.row(line)
                assert (row.id, row.parent_id) == (entry.id, entry.parent_id)
        for entry_id in ids:
            assert isinstance(entry_id, str)
            found.context(entry_id)


def test_a_long_chain_of_links_costs_each_line_once() -> None:
    lines = [claude_line(1, None, "hi")]
    lines += [no_message(number, number - 1, "progress") for number in range(2, 3000)]
    found = ReadSession(ClaudeCodeReading(), *lines, claude_line(3000, 2999, "on"))
    assert found.texts() == ["user: hi", "user: on"]


def test_the_entries_are_lines_of_a_native_file() -> None:
    for path in FILES:
        for line in read(ClaudeCodeReading(), lines_in(path)).lines:
            NATIVE.row(line)
