"""Rules of the formats that no generated file shows, as the second readers read them."""

from __future__ import annotations

from tests.kit.agent_files.said import Reading
from tests.kit.agent_files.second_claude import read_claude
from tests.kit.agent_files.second_codex import read_codex
from tests.kit.agent_files.second_gemini import read_gemini
from tests.kit.agents import claude_line, codex_line, codex_said
from tests.kit.claude import assistant, boundary, pin, result, summary
from tests.kit.lines import spelled
from tests.kit.sessions import text, tool_use


def numbers(reading: Reading) -> list[list[int]]:
    """Return the numbers of the lines of each message."""
    return [[int(one.removeprefix("u-")) for one in said.ids] for said in reading.context]


TALK = (
    claude_line(1, None, "one"),
    claude_line(2, 1, "two", "assistant"),
    claude_line(3, 2, "three"),
    claude_line(4, 3, "four", "assistant"),
)


def test_a_pin_at_a_kept_line_is_before_the_boundary() -> None:
    compacted = (*TALK, boundary(5, 3, 4), summary(6, 5))
    assert numbers(read_claude(spelled(*compacted))) == [[5], [6], [3], [4]]
    assert numbers(read_claude(spelled(*compacted, pin("u-4", explicit=True)))) == [
        [1],
        [2],
        [3],
        [4],
    ]


def test_a_pin_at_an_old_branch_below_a_kept_line_is_before_the_boundary() -> None:
    branch = claude_line(9, 2, "other")
    lines = (TALK[0], TALK[1], branch, *TALK[2:], boundary(5, 1, 2, 3, 4), summary(6, 5), *TALK)
    assert numbers(read_claude(spelled(*lines, pin("u-9", explicit=True)))) == [[1], [2], [9]]


def test_lines_of_a_reply_that_are_compacted_away_do_not_come_back() -> None:
    lines = (
        claude_line(1, None, "one"),
        assistant(2, 1, tool_use("a"), answer="msg"),
        assistant(3, 2, tool_use("b"), answer="msg"),
        result(4, 2, "a", "a"),
        result(5, 3, "b", "b"),
    )
    assert numbers(read_claude(spelled(*lines))) == [[1], [2, 3], [4], [5]]
    assert numbers(read_claude(spelled(*lines, boundary(6, 3, 5), summary(7, 6)))) == [
        [6],
        [7],
        [3],
        [5],
    ]


def test_a_kept_line_that_is_missing_is_named() -> None:
    reading = read_claude(spelled(*TALK, boundary(5, 3, 77, 4), summary(6, 5)))
    assert numbers(reading) == [[5], [6], [3], [4]]
    assert reading.missing == {"u-77"}


def test_the_line_with_most_output_tells_what_a_reply_cost() -> None:
    lines = [TALK[0], assistant(2, 1, text("x")), assistant(3, 2, text("x"))]
    for line, output in zip(lines[1:], (40, 7), strict=True):
        line["message"]["usage"] = {"input_tokens": 3, "output_tokens": output}
    assert read_claude(spelled(*lines)).usage["output"] == 40


def test_a_cycle_of_parents_ends() -> None:
    assert numbers(read_claude(spelled(claude_line(1, 2, "one"), claude_line(2, 1, "two")))) == [
        [1],
        [2],
    ]


def test_titles_of_claude_in_their_order() -> None:
    custom = {"type": "custom-title", "customTitle": "by hand"}
    made = {"type": "ai-title", "aiTitle": "made"}
    old = {"type": "summary", "summary": "old", "leafUuid": "x"}
    last = {"type": "last-prompt", "lastPrompt": "last", "leafUuid": None}
    assert read_claude(spelled(*TALK, custom, made, old, last)).title == "by hand"
    assert read_claude(spelled(*TALK, made, old, last)).title == "made"
    assert read_claude(spelled(*TALK, old, last)).title == "last"
    assert read_claude(spelled(*TALK, old)).title == "old"
    command = claude_line(1, None, "<command-name>/cost</command-name>")
    meta = claude_line(2, 1, "caveat", isMeta=True)
    assert read_claude(spelled(command, meta, claude_line(3, 2, "real"))).title == "real"
    assert read_claude(spelled(command, meta)).title == "<command-name>/cost</command-name>"


def test_bad_lines_are_counted() -> None:
    bad = [b"{", b"[]", b'"x"', b"\xff"]
    assert read_claude([*spelled(*TALK), *bad]).bad == 4
    assert read_codex([*spelled(codex_said("x")), *bad]).bad == 4
    assert read_gemini(bad).bad == 4


def test_a_reply_does_not_reach_over_a_compaction() -> None:
    said = codex_said("before", "assistant")
    history = [said["payload"]]
    compacted = codex_line("compacted", message="", replacement_history=history)
    reading = read_codex(spelled(said, compacted, codex_said("after", "assistant")))
    assert reading.order == [("assistant", ("line-2/0",)), ("assistant", ("line-3",))]


def test_a_rollback_of_more_turns_than_there_are_keeps_what_came_before_the_first() -> None:
    lines = (
        codex_said("# AGENTS.md instructions"),
        codex_line("event_msg", type="task_started", turn_id="t1"),
        codex_said("one"),
        codex_line("event_msg", type="user_message", message="one", images=[]),
        codex_line("event_msg", type="thread_rolled_back", num_turns=9),
        codex_said("two"),
    )
    assert read_codex(spelled(*lines)).order == [("user", ("line-1",)), ("user", ("line-6",))]
