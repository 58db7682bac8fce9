"""Contexts of other agents' sessions: each answer in one message, each result in one, in their order."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from sessiond.dialects.agents.own_entries import EntryIds, Times, record_of
from sessiond.dialects.agents.replies import OpenCalls, StatedUsage, as_all, one_message
from sessiond.dialects.agents.view import AgentDialect, arranged
from sessiond.dialects.base import ContextLine, ContextMessage
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.entries import Compaction, Message, Opaque
from sessiond.model.row import Kind
from sessiond.model.usage import Usage
from tests.kit.lines import parsed
from tests.kit.sessions import text, tool_result, tool_use

VIEW = AgentDialect("claude-code")


def message(role: str, *content: Any, answer: str | None = None, **more: Any) -> msgspec.Raw:
    """Return the one message that a reading makes of this content."""
    return one_message(parsed(NATIVE, {"role": role, "content": content, **more}), answer)


def line(entry_id: str, said: msgspec.Raw, *, kept: bool = False) -> ContextLine:
    """Return a message's entry as a line of a context."""
    encoded = NATIVE.encode(Message(id=entry_id, parent_id=None, message=said))
    return ContextLine(entry_id, VIEW.row(encoded).kind, encoded, kept=kept)


def seen(*lines: ContextLine) -> list[tuple[str, str, str]]:
    """Return the context of these lines: sources, roles and what the messages say."""
    found: list[tuple[str, str, str]] = []
    for one in VIEW.context(lines):
        said = json.loads(one.body)
        content = said["content"]
        blocks = [text(content)] if isinstance(content, str) else content
        words = " ".join(str(block.get("text", block.get("id"))) for block in blocks)
        whose = f"{said['toolCallId']}=" if "toolCallId" in said else ""
        found.append((one.source, said["role"], whose + words))
    return found


def test_the_parts_of_an_answer_are_one_message_with_its_results_behind_in_order_of_the_calls() -> (
    None
):
    lines = [
        line("1", message("user", text("go"))),
        line("2", message("assistant", text("well"), tool_use("a"), answer="r", stop_reason="x")),
        line("3", message("user", tool_result("a", "A"))),
        line("4", message("assistant", tool_use("b"), tool_use("c"), answer="r")),
        line("5", message("user", text("wait"))),
        line("6", message("user", tool_result("c", "C"), tool_result("b", "B"))),
        line("7", message("assistant", text("done"), answer="s")),
    ]
    assert seen(*lines) == [
        ("1", "user", "go"),
        ("2", "assistant", "well a b c"),
        ("3", "toolResult", "a=A"),
        ("6", "toolResult", "b=B"),
        ("6", "toolResult", "c=C"),
        ("5", "user", "wait"),
        ("7", "assistant", "done"),
    ]


def test_a_joined_answer_states_the_sum_of_the_usage_and_the_last_reason_to_stop() -> None:
    first = message("assistant", text("a"), answer="r", model="m", usage={"input": 3, "output": 1})
    last = message(
        "assistant", text("b"), answer="r", model="n", usage={"output": 4}, stop_reason="end_turn"
    )
    (one,) = VIEW.context([line("1", first), line("2", last)])
    found = json.loads(one.body)
    assert (found["model"], found["stopReason"]) == ("m", "end_turn")
    assert [found["usage"][name] for name in ("input", "output", "totalTokens")] == [3, 5, 8]


def test_a_message_with_calls_and_results_is_split_where_it_stands() -> None:
    both = message("assistant", text("look"), tool_use("a"), tool_result("a", "A"))
    assert seen(line("1", both)) == [("1", "assistant", "look a"), ("1", "toolResult", "a=A")]
    beside = message("user", tool_result("a", "A"), text("stop"))
    assert seen(line("2", beside)) == [("2", "toolResult", "a=A"), ("2", "user", "stop")]
    # Such a line is one entry: of the user where the user says something, else a result.
    assert line("2", beside).kind == Kind.USER
    assert (
        line("3", message("user", tool_result("a", "A"), tool_result("b", "B"))).kind == Kind.TOOL
    )


def test_a_result_whose_call_is_not_in_the_context_stays_where_it_is() -> None:
    lines = [
        line("1", message("user", tool_result("a", "A"))),
        line("2", message("user", text("b"))),
    ]
    assert seen(*lines) == [("1", "toolResult", "a=A"), ("2", "user", "b")]


def test_a_call_that_an_answer_tells_again_keeps_its_result() -> None:
    lines = [
        line("1", message("assistant", tool_use("a"), answer="r")),
        line("2", message("user", tool_result("a", "A"))),
        line("3", message("assistant", tool_use("a"), answer="r")),
    ]
    assert [said for _, _, said in seen(*lines)] == ["a a", "a=A"]


def test_a_part_that_says_all_of_its_answer_takes_the_place_of_the_parts_before() -> None:
    used = {"usage": {"input": 3, "output": 1}}
    old = message("assistant", text("old"), tool_use("a"), answer="r", **used)
    both = message(
        "assistant", text("new"), tool_use("b"), tool_result("b", "B"), answer="r", **used
    )
    lines = [
        line("1", old),
        line("2", message("user", tool_result("a", "A"))),
        line("3", message("user", text("next"))),
        line("4", as_all(both)),
    ]
    assert seen(*lines) == [
        ("1", "assistant", "new b"),
        ("4", "toolResult", "b=B"),
        ("3", "user", "next"),
    ]
    # Both were paid for.
    assert json.loads(VIEW.context(lines)[0].body)["usage"]["input"] == 6
    assert seen(lines[3]) == [("4", "assistant", "new b"), ("4", "toolResult", "b=B")]
    assert b"restates" not in VIEW.context(lines[3:])[0].body


def test_messages_without_answers_in_parts_keep_their_bytes() -> None:
    said = b'{ "role":"user", "content":"it says \\"responseId\\" and \\"tool_result\\"" }'
    alone = b'{"role":"assistant","content":"x","responseId":"r"}'
    messages = [ContextMessage("1", said), ContextMessage("2", alone)]
    assert arranged(messages[:1]) == messages[:1]
    assert arranged(messages) == messages


def test_a_compaction_keeps_the_entries_that_it_names() -> None:
    compaction = Compaction(
        id="c",
        parent_id=None,
        summary="short",
        first_kept_entry_id="1",
        details=msgspec.Raw(b'{"kept":["1","3"]}'),
    )
    first = ContextLine("c", Kind.COMPACTION, NATIVE.encode(compaction))
    kept = [line(str(n), message("user", text(f"t{n}")), kept=True) for n in (1, 2, 3)]
    later = line("4", message("user", text("t4")))
    assert [one.source for one in VIEW.context([first, *kept, later])] == ["c", "1", "3", "4"]
    plain = Compaction(id="c", parent_id=None, summary="short", first_kept_entry_id="1")
    first = ContextLine("c", Kind.COMPACTION, NATIVE.encode(plain))
    assert [one.source for one in VIEW.context([first, *kept])] == ["c", "1", "2", "3"]


def test_a_record_of_tokens_has_their_usage_and_every_opaque_line_is_a_record() -> None:
    usage = {"input": 1, "output": 2, "totalTokens": 3}
    record = Opaque(
        type="usage", id="u", parent_id=None, fields={"usage": msgspec.Raw(json.dumps(usage))}
    )
    assert VIEW.row(NATIVE.encode(record)).usage == Usage(1, 2, 0, 0, 3)
    assert NATIVE.row(NATIVE.encode(record)).usage is None
    assert VIEW.name == "claude-code"
    assert Kind.OPAQUE in VIEW.rules.records
    assert not VIEW.rules.truncates


@pytest.mark.parametrize("word", ["message", "leaf", "usage", "session_header"])
def test_a_word_of_the_agent_that_means_something_here_gets_the_agents_name(word: str) -> None:
    record = record_of("codex", word, b'{"type":"x"}')
    assert record.type == f"codex.{word}"
    assert bytes(record.fields["data"]) == b'{"type":"x"}'
    assert record_of("codex", "", b"{}").type == "none"
    assert record_of("codex", "mode", b"{}\r").type == "mode"


def test_ids_are_the_agents_own_where_they_may_be_and_never_twice() -> None:
    used: set[str] = set()
    ids = EntryIds(used)
    given = []
    for number, wanted in enumerate(["a", "a", "a.2", None, "line-9", "bad id", "", "x" * 127], 1):
        given.append(ids.free(wanted, number))
        used.add(wanted or "")
    given.append(ids.free("x" * 127, 9))
    assert given[:7] == ["a", "a.2", "a.2.3", "line-4", "line-5", "line-6", "line-7"]
    assert given[7:] == ["x" * 127, "line-9"]


def test_a_line_without_a_time_has_the_time_of_the_line_before() -> None:
    times = Times()
    assert times.take("") is msgspec.UNSET
    assert [times.take(one) for one in ("t1", "", "t2")] == ["t1", "t1", "t2"]


def test_each_part_of_an_answer_states_only_what_the_parts_before_did_not() -> None:
    stated = StatedUsage()
    parts = [Usage(10, 1, total_tokens=11), Usage(10, 1, total_tokens=11)]
    parts += [Usage(10, 7, total_tokens=17), Usage(99, 3), Usage(8, 7, total_tokens=15)]
    found = [stated.take(one) for one in parts]
    more = Usage(0, 6, total_tokens=6)
    assert found == [Usage(10, 1, total_tokens=11), None, more, None, None]
    assert stated.total == 17
    assert stated.take(None) is None
    assert StatedUsage().take(Usage()) == Usage()


def test_a_call_is_open_until_its_result() -> None:
    calls = OpenCalls()
    calls.ask(
        1,
        parsed(NATIVE, {"role": "assistant", "content": [tool_use("a", "A"), tool_use("b", "B")]}),
    )
    assert calls.is_waiting(1)
    said, group = calls.settle(
        parsed(NATIVE, {"role": "user", "content": [tool_result("a", "A"), tool_result("x", "X")]})
    )
    assert ([block.name for block in said.blocks], group) == (["A", ""], 1)
    assert calls.is_waiting(1)
    # A call that is told again belongs to the later group.
    calls.ask(2, parsed(NATIVE, {"role": "assistant", "content": [tool_use("b")]}))
    assert not calls.is_waiting(1)
    assert (
        calls.settle(parsed(NATIVE, {"role": "user", "content": [tool_result("b", "B")]}))[1] == 2
    )
    assert not calls.is_waiting(2)
    assert (
        calls.settle(parsed(NATIVE, {"role": "user", "content": [tool_result("b", "B")]}))[1]
        is None
    )
