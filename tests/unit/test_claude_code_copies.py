"""A copy of a session of Claude Code says what the session says where its file lies."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sessiond.dialects.agents.claude_code import ClaudeCodeReading
from sessiond.dialects.agents.transcript import Transcript
from sessiond.journal.splitter import long_line
from sessiond.service.sources.agents.source import Report
from tests.kit.agents import SAMPLES, claude_line
from tests.kit.claude import assistant, boundary, result, summary
from tests.kit.lines import spelled
from tests.kit.readings import Copy, agent_log, read
from tests.kit.sessions import text, tool_result, tool_use

SEEDS = 150
PATHS = [*sorted(SAMPLES.glob("claude*.jsonl")), *SAMPLES.glob("claude-subagent/**/*.jsonl")]


def _end(found: Any, entry_id: str) -> str:
    """Return the last line of the answer that begins with an entry, as its copy has all of them."""
    answers = [
        None if entry is None else json.loads(line).get("message", {}).get("responseId")
        for entry, line in zip(found.entries, found.lines, strict=True)
    ]
    end, seq = entry_id, found.session.ids[entry_id]
    answer = answers[seq - 1]
    while answer is not None:
        below = [
            at for at in range(seq + 1, found.session.seq + 1) if found.session.parents[at] == seq
        ]
        parts = [at for at in below if answers[at - 1] == answer]
        if not parts:
            break
        seq = parts[0]
        end = found.session.names[seq]
    return end


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem[-12:])
def test_the_copy_of_a_sample_has_the_same_contexts(path: Any) -> None:
    data = path.read_bytes()
    found, copy = read(ClaudeCodeReading(), data.split(b"\n")), Copy("claude-code", data)
    assert copy.texts(copy.session.heads["main"].leaf) == found.texts()
    assert copy.session.usage == found.session.usage
    assert copy.session.problems == []
    for entry_id, seq in copy.session.ids.items():
        is_last_of_its_line = not any(one.startswith(f"{entry_id}.") for one in copy.session.ids)
        if copy.session.is_node(seq) and is_last_of_its_line:
            assert copy.texts(seq) == found.texts(_end(found, entry_id))


def copy_like_its_source(*lines: Any) -> Copy:
    """Return the copy of these lines, which has the context that the session has in place."""
    data = b"\n".join(spelled(*lines))
    found, copy = read(ClaudeCodeReading(), data.split(b"\n")), Copy("claude-code", data)
    assert copy.texts(copy.session.heads["main"].leaf) == found.texts()
    assert copy.session.usage == found.session.usage
    assert b"responseId" not in b"".join(copy.lines)
    return copy


def test_an_answer_that_goes_on_behind_a_result_has_its_children_below_the_result() -> None:
    copy_like_its_source(
        claude_line(1, None, "hi"),
        assistant(2, 1, tool_use("t1")),
        result(3, 2, "t1"),
        assistant(4, 2, text("more")),
        claude_line(5, 4, "on"),
    )


def test_an_answer_that_goes_on_behind_a_compaction_has_two_parts() -> None:
    first = [claude_line(1, None, "hi"), assistant(2, 1, text("lost"))]
    copy_like_its_source(*first, boundary(3), summary(4, 3), assistant(5, 4, text("more")))


def test_an_answer_on_two_branches_is_an_entry_on_each() -> None:
    lines = [claude_line(1, None, "hi"), assistant(2, 1, text("a"))]
    lines += [claude_line(3, None, "hi"), assistant(4, 3, text("a")), claude_line(5, 4, "on")]
    copy_like_its_source(*lines)


def test_a_compaction_that_keeps_parts_has_each_message_once() -> None:
    parts = [assistant(2, 1, text("a")), assistant(3, 2, text("b"))]
    lines = [claude_line(1, None, "hi"), *parts, claude_line(4, 3, "left"), claude_line(5, 4, "on")]
    copy = Copy("claude-code", b"\n".join(spelled(*lines, boundary(6, 2, 3, 5), summary(7, 6))))
    leaf = copy.session.heads["main"].leaf
    assert copy.texts(leaf) == ["user: short", "assistant: a + b", "user: on"]
    assert b"details" not in copy.lines[-1]


def test_a_compaction_that_keeps_the_end_of_an_answer_keeps_all_of_it_in_a_copy() -> None:
    queued = claude_line(3, 2, "") | {"type": "attachment"}
    del queued["message"]
    queued["attachment"] = {"type": "queued_command", "prompt": "q"}
    lines = [claude_line(1, None, "hi"), assistant(2, 1, text("a")), queued]
    lines += [assistant(4, 3, text("b")), boundary(5, 4), summary(6, 5)]
    copy = Copy("claude-code", b"\n".join(spelled(*lines)))
    assert "assistant: a + b" in copy.texts(copy.session.heads["main"].leaf)


def test_a_kept_line_that_comes_behind_the_summary_is_not_missing() -> None:
    lines = [claude_line(1, None, "hi"), claude_line(2, 1, "a", "assistant"), boundary(3, 2, 5)]
    copy = copy_like_its_source(*lines, summary(4, 3), claude_line(5, 4, "b"))
    assert copy.report.problems == []
    assert Copy("claude-code", b"\n".join(spelled(*lines, summary(4, 3)))).report.problem_count


def test_lines_without_an_entry_are_in_the_report_by_their_numbers() -> None:
    report = Report()
    line = json.dumps(claude_line(1, None, "hi")).encode()
    lines = [b"", long_line(b'{"type"', b"x", 99), b"{", line]
    found = list(
        report.entries(agent_log("a.jsonl", lines, b"{half"), Transcript(ClaudeCodeReading()))
    )
    assert [(one.line, one.entry and one.entry.id) for one in found] == [(4, "u-1")]
    kinds = [(one.line, one.kind) for one in report.problems]
    assert kinds == [(2, "bad_line"), (3, "bad_line"), (5, "torn_tail")]
    assert "99 bytes long" in report.problems[0].detail
    whole = list(report.entries(agent_log("a.jsonl", [], line), Transcript(ClaudeCodeReading())))
    assert [one.line for one in whole] == [1]


def tree(chance: random.Random) -> list[Any]:
    """Return the lines of a session with answers in parts, calls, results, links and branches."""
    lines: list[Any] = [claude_line(1, None, "t1")]
    calls: list[tuple[int, str]] = []
    for number in range(2, chance.randrange(5, 30)):
        above = number - 1 if chance.random() < 0.7 else chance.randrange(1, number)
        line = claude_line(number, above, f"t{number}")
        match chance.randrange(8):
            case 0 | 1 | 2:
                content: list[Any] = [text(f"t{number}")]
                if chance.random() < 0.6:
                    calls.append((number, f"c{number}"))
                    content.append(tool_use(f"c{number}", "N"))
                line = claude_line(number, above, "", "assistant")
                usage = {"input_tokens": chance.randrange(5), "output_tokens": chance.randrange(9)}
                answer = f"m{number}"
                if above == number - 1 and lines[-1]["type"] == "assistant":
                    answer = lines[-1]["message"]["id"]
                line["message"] |= {"id": answer, "content": content, "usage": usage}
            case 3 | 4 if calls:
                asked, call_id = calls.pop(chance.randrange(len(calls)))
                line["parentUuid"] = f"u-{asked}"
                line["message"]["content"] = [tool_result(call_id, f"t{number}")]
            case 5:
                del line["message"]
                kind = chance.choice(["file", "queued_command"])
                line |= {"type": "attachment", "attachment": {"type": kind, "prompt": "q"}}
            case 6:
                leaf = f"u-{chance.randrange(1, number)}"
                line = {"type": "last-prompt", "leafUuid": leaf, "sessionId": "s"}
            case _:
                pass
        lines.append(line)
    return lines


def test_copies_of_any_trees_have_the_same_words_and_usage() -> None:
    for seed in range(SEEDS):
        lines = tree(random.Random(seed))
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        found, copy = read(ClaudeCodeReading(), data.split(b"\n")), Copy("claude-code", data)
        assert copy.session.usage == found.session.usage
        # A prompt between results comes behind them in place, and stays between them in the copy.
        leaf = copy.session.heads["main"].leaf
        assert sorted(copy.texts(leaf)) == sorted(found.texts())
