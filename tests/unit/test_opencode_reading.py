"""The reading of opencode's sessions: the samples, compactions, reverts, results and failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.dialects.agents.opencode import OpencodeReading
from sessiond.dialects.agents.opencode_lines import StoredMessage, StoredPart, session_lines
from sessiond.model.entries import Opaque
from sessiond.model.usage import Usage
from sessiond.service.sources.agents.found import left_out
from sessiond.service.sources.agents.opencode.store import choose, stored_lines
from tests.kit.opencode import (
    FOOTER,
    RENAME,
    TREE,
    assistant,
    database,
    message,
    row,
    session,
    store_at,
    text,
    tokens,
    tool,
    user,
)
from tests.kit.readings import ReadSession, bytes_kept, check_reading, variants

ASKED = "What did we do so far?"
CALL = 'read call_1 {"filePath": "/home/ann/site/index.html"}'


def stored(path: Path) -> list[bytes]:
    """Return the lines of the only session of a store."""
    store = store_at(path)
    return list(stored_lines(store, choose(store, path, None).session))


# -- the samples ----------------------------------------------------------------------------------


def test_the_sample_of_a_tree_reads_as_expected() -> None:
    found = ReadSession(OpencodeReading(), *stored(TREE))
    assert found.texts() == [
        "user: add a footer",
        f"assistant: thinking look + {CALL} + Footer added.",
        "result of read call_1: <html>",
    ]
    assert found.usage == Usage(200, 50 + 10, 0, 900, 1160, 0.01)
    assert (found.origin.session_id, found.origin.cwd) == (FOOTER, "/home/ann/site")
    assert found.origin.created_at == "2026-11-05T12:00:00.000Z"
    assert found.session.facts == {"auto_title": "Add a footer"}
    assert found.model == ("claude-sonnet-5", "anthropic")


def test_the_sample_of_version_1_reads_as_expected(tmp_path: Path) -> None:
    found = ReadSession(OpencodeReading(), *stored(database(tmp_path / "opencode.db")))
    summary = "msg_a4000000000fAAAAAAAAAAAAAA"
    assert found.context() == [
        (f"{summary}.8", f"user: {ASKED}"),
        (f"{summary}.8", "assistant: Summary: a footer was added."),
        ("msg_a40000000009AAAAAAAAAAAAAA", "user: make it grey"),
        ("msg_a4000000000bAAAAAAAAAAAAAA", "assistant: Grey now."),
        ("msg_a40000000011AAAAAAAAAAAAAA", "user: deploy"),
    ]
    assert found.leaf_id == "msg_a40000000011AAAAAAAAAAAAAA"
    assert found.usage == Usage(1480, 122 + 10, 1100, 960, 3672, 0.017)
    # The question and the summary stay as a branch, below all that they summarise.
    before = ["user: add a footer", f"assistant: thinking look + {CALL} + Footer added."]
    before += ["result of read call_1: <html>", "user: make it grey", "assistant: Grey now."]
    told = [f"user: {ASKED}", "assistant: Summary: a footer was added."]
    assert found.texts(summary) == [*before, *told]
    assert found.problems() == found.records() == []


def test_the_sample_of_version_2_reads_as_expected(tmp_path: Path) -> None:
    found = ReadSession(OpencodeReading(), *stored(database(tmp_path / "opencode.db", "v2")))
    assert found.context() == [
        (
            "msg_a50000000004BBBBBBBBBBBBBB",
            "summary: The page was renamed to b.\n\nUser: rename the page",
        ),
        ("msg_a50000000005BBBBBBBBBBBBBB", "user: undo that"),
        ("msg_a50000000006BBBBBBBBBBBBBB", "assistant: Undone."),
    ]
    assert found.texts("msg_a50000000002BBBBBBBBBBBBBB") == [
        "user: rename the page",
        'assistant: thinking find it + bash call_9 {"command": "mv a b"} + Renamed.',
        "result of bash call_9: ok",
    ]
    assert found.usage is not None
    assert (found.usage.input_tokens, found.usage.output_tokens) == (330, 58)
    assert (found.usage.cache_read_tokens, found.usage.cache_write_tokens) == (600, 400)
    assert found.usage.cost == pytest.approx(0.02)
    assert (found.leaf_id, found.model) == (
        "msg_a50000000006BBBBBBBBBBBBBB",
        ("claude-sonnet-5", "anthropic"),
    )
    assert found.origin.session_id == RENAME
    assert [word for _, word in found.records()] == ["row.idle", "usage", "row.compaction.failed"]


@pytest.mark.parametrize("name", ["tree", "v1", "v2"])
def test_any_lines_keep_the_laws_of_a_reading(tmp_path: Path, name: str) -> None:
    lines = stored(TREE if name == "tree" else database(tmp_path / "opencode.db", name))
    check_reading(OpencodeReading, lines)
    for one in variants(lines, name, 100):
        check_reading(OpencodeReading, one)


# -- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (tool("c", output="a.txt"), "result of ls c: a.txt"),
        (tool("c", time={"compacted": 5}), "result of ls c: [Old tool result content cleared]"),
        (tool("c", "error", error="no"), "result of ls c failed: no"),
        (tool("c", "pending"), "result of ls c failed: [Tool execution was interrupted]"),
        (tool("c", "running"), "result of ls c failed: [Tool execution was interrupted]"),
    ],
)
def test_a_call_has_the_result_that_opencode_sends(state: Any, said: str) -> None:
    found = ReadSession(OpencodeReading(), session(), user("u", text("go")), assistant("a", state))
    assert found.texts() == ["user: go", 'assistant: ls c {"a": 1}', said]


def test_an_output_has_its_files() -> None:
    image = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,aGk="}
    found = ReadSession(
        OpencodeReading(), session(), assistant("a", tool("c", output="see", attachments=[image]))
    )
    (_, result) = [one for _, one in found.messages()]
    assert result["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    ]


def test_what_the_model_does_not_get_is_left_out_of_a_message() -> None:
    read_file = {"type": "file", "mime": "text/plain", "url": "file:///p/a", "filename": "a"}
    pdf = {"type": "file", "mime": "application/pdf", "url": "data:application/pdf;base64,aGk="}
    found = ReadSession(
        OpencodeReading(),
        session(),
        user(
            "u",
            text("go"),
            text("hidden", ignored=True),
            read_file,
            pdf,
            text("a: hi", synthetic=True),
        ),
        assistant("a", {"type": "step-start"}, text("done"), {"type": "patch", "files": []}),
    )
    assert found.texts() == ["user: go + file + a: hi", "assistant: done"]
    assert found.session.first_message == "go"


def test_a_message_that_opencode_wrote_is_injected() -> None:
    found = ReadSession(
        OpencodeReading(),
        session(),
        user("u", text("continue", synthetic=True)),
        user("v", text("go")),
    )
    assert found.types() == ["session_info", "custom_message", "message"]
    assert found.entry(2)["custom_type"] == "opencode.synthetic"
    assert found.session.first_message == "go"


def test_a_message_without_words_is_a_record() -> None:
    found = ReadSession(
        OpencodeReading(),
        session(title="New session - 2026-01-01T00:00:00.000Z"),
        user("u", text("hidden", ignored=True)),
        assistant("a", {"type": "step-start"}, tokens=tokens(7, 1)),
    )
    # Its tokens count all the same, and a title that says nothing is none.
    assert found.types() == ["opencode.session", "message.user", "usage"]
    assert (found.context(), found.session.facts) == ([], {})
    assert found.usage == Usage(7, 1, 0, 0, 8)


@pytest.mark.parametrize(
    ("error", "parts", "is_said"),
    [
        ({"name": "APIError"}, [text("half")], False),
        ({"name": "MessageAbortedError"}, [text("half")], True),
        ({"type": "aborted"}, [text("half")], True),
        ({"name": "MessageAbortedError"}, [{"type": "reasoning", "text": "hm"}], False),
    ],
)
def test_an_answer_that_failed_is_not_sent(error: Any, parts: list[Any], is_said: bool) -> None:
    found = ReadSession(
        OpencodeReading(), session(), user("u", text("go")), assistant("a", *parts, error=error)
    )
    assert found.texts() == ["user: go", *(["assistant: half"] if is_said else [])]
    if is_said:
        assert found.entry(3)["message"]["stopReason"] == "aborted"
    else:
        assert found.records() == [(3, "message.assistant.error")]


def test_the_steps_of_an_answer_stand_behind_the_results_before_them() -> None:
    parts = [
        {"type": "step-start"},
        text("I look."),
        tool("c"),
        {"type": "step-start"},
        text("Ah."),
    ]
    data = {"role": "assistant", "finish": "stop", "tokens": tokens(5, 2)}
    spelled = [StoredPart(f"p{at}", json.dumps(part).encode()) for at, part in enumerate(parts)]
    lines = session_lines({}, [StoredMessage("a", 1, json.dumps(data).encode(), spelled)])
    found = ReadSession(OpencodeReading(), *lines)
    assert found.texts() == [
        'assistant: I look. + ls c {"a": 1}',
        "result of ls c: ok",
        "assistant: Ah.",
    ]
    stops = [found.entry(at)["message"]["stopReason"] for at in (2, 3)]
    assert stops == ["toolUse", "stop"]
    assert "usage" not in found.entry(2)["message"]
    assert found.usage == Usage(5, 2, 0, 0, 7)


# -- compactions ----------------------------------------------------------------------------------


def compacted(**more: Any) -> list[Any]:
    """Return the lines of a talk that was compacted, the summary changed by `more`."""
    ended: dict[str, Any] = {"summary": True, "parentID": "q", **more}
    return [
        session(),
        user("u1", text("one")),
        assistant("a1", text("first")),
        user("u2", text("two")),
        user("q", {"type": "compaction", "auto": True, "tail_start_id": "u2"}),
        assistant("s", text("short"), **ended),
        assistant("s", text("short"), kind="compaction", **ended),
        user("u3", text("three")),
    ]


def test_a_compaction_keeps_the_messages_from_the_named_one_on() -> None:
    found = ReadSession(OpencodeReading(), *compacted())
    told = [f"user: {ASKED}", "assistant: short"]
    assert found.texts() == [*told, "user: two", "user: three"]
    lines = compacted()
    del lines[4]["parts"][0]["tail_start_id"]
    assert ReadSession(OpencodeReading(), *lines).texts() == [*told, "user: three"]


def test_a_tail_may_begin_before_an_earlier_compaction() -> None:
    ended: dict[str, Any] = {"summary": True, "parentID": "r"}
    found = ReadSession(
        OpencodeReading(),
        *compacted(),
        user("r", {"type": "compaction", "auto": True, "tail_start_id": "u2"}),
        user("u4", text("meanwhile")),
        assistant("t", text("again short"), **ended),
        assistant("t", text("again short"), kind="compaction", **ended),
        user("u5", text("five")),
    )
    earlier = ["user: two", f"user: {ASKED}", "assistant: short", "user: three"]
    later = ["user: meanwhile", "user: five"]
    assert found.texts() == [f"user: {ASKED}", "assistant: again short", *earlier, *later]
    assert found.problems() == []


def test_a_compaction_may_begin_at_a_message_that_is_not_sent() -> None:
    lines = compacted()
    lines[2] = assistant("a1", text("first"), error={"name": "APIError"})
    lines[4]["parts"][0]["tail_start_id"] = "a1"
    told = [f"user: {ASKED}", "assistant: short"]
    assert ReadSession(OpencodeReading(), *lines).texts() == [*told, "user: two", "user: three"]


@pytest.mark.parametrize("tail", ["x", "y"])
def test_a_compaction_keeps_nothing_of_a_hidden_branch(tail: str) -> None:
    lines = compacted()
    lines[4]["parts"][0]["tail_start_id"] = tail
    failed = assistant("y", text("half"), error={"name": "APIError"})
    hidden = [user("x", text("no")), failed, {"type": "revert", "message_id": "x"}]
    found = ReadSession(OpencodeReading(), *lines[:3], *hidden, *lines[3:])
    assert found.texts() == [f"user: {ASKED}", "assistant: short", "user: three"]
    assert found.problems() == []


@pytest.mark.parametrize(
    "unfinished", [{"finish": None}, {"error": {"name": "APIError"}}, {"parentID": "u2"}]
)
def test_a_compaction_that_did_not_end_well_counts_for_nothing(unfinished: Any) -> None:
    found = ReadSession(OpencodeReading(), *compacted(**unfinished))
    said = ["user: one", "assistant: first", "user: two", f"user: {ASKED}"]
    summary = [] if "error" in unfinished else ["assistant: short"]
    assert found.texts() == [*said, *summary, "user: three"]
    assert found.records()[-1] == (7, "opencode.compaction")


def test_only_the_newest_compaction_that_every_provider_reads_counts() -> None:
    found = ReadSession(
        OpencodeReading(),
        session(),
        row("user", 1, text="one"),
        row("compaction", 2, status="completed", summary="short", recent=""),
        row("user", 3, text="two"),
        row("compaction", 4, status="completed", summary="x", providerContext={"id": "c"}),
        row("compaction", 5, status="running"),
        row("user", 6, text="three"),
    )
    assert found.texts() == ["summary: short", "user: two", "user: three"]
    words = [word for _, word in found.records()]
    assert words == ["row.compaction.provider", "row.compaction.running"]


def test_the_rows_of_version_2_that_are_no_messages() -> None:
    found = ReadSession(
        OpencodeReading(),
        session(),
        row("synthetic", 1, text="note"),
        row("shell", 2, command="ls", status="done", output="a.txt"),
        row("model-switched", 3, model={"id": "m2", "providerID": "p2"}),
        row("agent-switched", 4, agent="plan"),
        row("assistant", 5, content=[{"type": "text", "text": "half"}], error={"type": "unknown"}),
        row("user", 6, text="", files=[{"mime": "image/png", "uri": "data:image/png;base64,aGk="}]),
    )
    assert found.types()[1:] == [
        *("custom_message", "custom_message", "model_change"),
        *("row.agent-switched", "row.assistant.error", "message"),
    ]
    assert found.texts() == ["custom: note", "custom: $ ls\na.txt", "user: image"]
    assert found.model == ("m2", "p2")


def test_the_states_of_a_call_of_version_2() -> None:
    running = {"type": "tool", "id": "c1", "name": "ls", "state": {"status": "streaming"}}
    running["state"]["input"] = '{"a'  # type: ignore[index]
    failed = {"status": "error", "input": {}, "error": {"type": "x", "message": "no"}}
    content = [running, {"type": "tool", "id": "c2", "name": "ls", "state": failed}]
    assert ReadSession(
        OpencodeReading(), session(), row("assistant", 1, content=content)
    ).texts() == [
        "assistant: ls c1 {} + ls c2 {}",
        "result of ls c1 failed: [Tool execution was interrupted]",
        "result of ls c2 failed: no",
    ]


# -- reverts --------------------------------------------------------------------------------------


def reverted(message_id: str, part_id: str | None = None) -> ReadSession:
    """Return a session with a revert."""
    said = [
        ("u1", {"role": "user"}, [text("one")]),
        ("a1", {"role": "assistant", "tokens": tokens(5, 2)}, [text("first"), text("second")]),
        ("u2", {"role": "user"}, [text("two")]),
    ]
    messages = [
        StoredMessage(
            name,
            at,
            json.dumps(data).encode(),
            [StoredPart(f"{name}.{k}", json.dumps(one).encode()) for k, one in enumerate(parts)],
        )
        for at, (name, data, parts) in enumerate(said)
    ]
    revert = json.dumps({"messageID": message_id, "partID": part_id})
    return ReadSession(
        OpencodeReading(), *session_lines({"id": "ses_1", "revert": revert}, messages)
    )


def test_a_revert_hides_messages_which_stay_as_a_branch() -> None:
    found = reverted("u2")
    assert found.texts() == ["user: one", "assistant: first + second"]
    assert found.texts("u2")[-1] == "user: two"
    assert (reverted("u1").texts(), reverted("u1").leaf_id) == ([], None)
    # A message that is not there hides nothing.
    assert len(reverted("u9").texts()) == 3


def test_a_message_behind_a_revert_stands_beside_what_is_hidden() -> None:
    hidden, unknown = ({"type": "revert", "message_id": name} for name in ("u2", "u9"))
    said = [user("u1", text("one")), user("u2", text("two"))]
    found = ReadSession(OpencodeReading(), session(), *said, hidden, unknown)
    assert found.take_all([user("u3", text("three"))]).texts() == ["user: one", "user: three"]


def test_a_revert_from_a_part_on_leaves_the_parts_before() -> None:
    found = reverted("a1", "a1.1")
    assert found.texts() == ["user: one", "assistant: first"]
    assert found.texts("u2") == ["user: one", "assistant: first + second", "user: two"]
    # The tokens of the answer count once.
    assert found.usage == Usage(5, 2, 0, 0, 7)
    # Nothing is left of a message that is hidden from its first part on.
    assert reverted("a1", "a1.0").texts() == ["user: one"]


# -- the rest -------------------------------------------------------------------------------------


def test_a_subagent_and_a_fork_name_their_origin() -> None:
    found = ReadSession(OpencodeReading(), session(parent_id="ses_0", fork_session_id="ses_9"))
    assert (found.origin.parent_id, found.origin.is_subagent) == ("ses_0", True)
    found = ReadSession(OpencodeReading(), session(parent_id=None, fork_session_id="ses_9"))
    assert (found.origin.parent_id, found.origin.is_subagent) == ("ses_9", False)


def test_what_is_left_out_of_a_copy_has_a_name() -> None:
    name = left_out("opencode")
    words = {
        "opencode.session": None,
        "opencode.compaction": None,
        "message.user": "messages of type user",
        "message.assistant.error": "answers that failed",
        "row.idle": "rows of type idle",
        "revert": "reverts to a message that is not there",
        "opencode.none": "lines of no known form",
    }
    assert {word: name(Opaque(type=word, fields={})) for word in words} == words


def test_a_reading_keeps_little_of_a_line() -> None:
    # The lines are made while the memory is measured, so that a slice would keep its line there.
    made = (message(f"m{at}", {"role": "user"}, text("x" * 10_000)) for at in range(200))
    assert bytes_kept(OpencodeReading(), (json.dumps(one).encode() for one in made)) < 200 * 800
    rows = (session(version="2.0.0", unknown="x" * 10**6), user("u", text("go")))
    lines = (json.dumps(one).encode() for one in rows)
    assert bytes_kept(OpencodeReading(), lines) < 10**5
