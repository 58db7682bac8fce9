"""The reading of Gemini CLI's chats, a line at a time: entries, contexts, usage, rewinds and lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.dialects.agents import gemini_cli as gemini_module
from sessiond.dialects.agents.gemini_cli import GeminiCliReading, document_lines
from sessiond.model.usage import Usage
from tests.kit.agents import CHATS
from tests.kit.gemini import TIME, call, model, replaced, tokens, user
from tests.kit.lines import lines_in, spelled
from tests.kit.readings import ReadSession, bytes_kept, check_reading, variants

FILES = sorted(CHATS.glob("*.jsonl"))
HEAD = {
    "sessionId": "7d3c1a20-0000-4000-8000-0000000000aa",
    "projectHash": "6f92",
    "startTime": "2026-01-15T10:00:00.000Z",
    "lastUpdated": "2026-01-15T10:00:00.000Z",
    "kind": "main",
}


# -- the samples ----------------------------------------------------------------------------------


def test_the_sample_with_a_rewind_reads_as_expected() -> None:
    found = ReadSession(GeminiCliReading(), *lines_in(CHATS, "7d3c1a20"))
    assert (found.leaf_id, found.model) == ("g4", ("gemini-3-flash", None))
    assert found.session.facts == {"auto_title": "Look at a.txt"}
    asked = 'list_directory call-1 {"dir_path": "."}'
    begun = [
        ("u1", "user: what is here?"),
        ("g1", f"assistant: thinking Plan\nList first + Let me look. + {asked}"),
        ("g1.6", "result of list_directory call-1: a.txt"),
        ("g2", "assistant: One file: a.txt."),
    ]
    assert found.context() == [
        *begun,
        ("u3", "user: keep it, print it"),
        ("g4", "assistant: It says hi."),
    ]
    assert found.context("g3") == [*begun, ("u2", "user: delete it"), ("g3", "assistant: Deleted.")]
    # With the rewound answer; 4400 of the input were cached, and 40 of the output are thoughts.
    assert found.usage == Usage(5190 - 4400, 48 + 40, 4400, 0, 5278)
    # The lines of one answer are parts of the answer, not versions beside each other.
    assert [found.entry(at)["parent_id"] for at in (4, 5, 6)] == ["u1", "g1", "g1.5"]
    assert found.types()[:2] == ["metadata", "info"]
    assert found.origin.session_id == "7d3c1a20-0000-4000-8000-000000000001"
    assert (found.origin.cwd, found.origin.created_at) == ("", "2026-11-03T11:00:00.000Z")
    assert bytes(found.origin.facts["kind"]) == b'"main"'


def test_the_sample_with_a_replaced_list_reads_as_expected() -> None:
    found = ReadSession(GeminiCliReading(), *lines_in(CHATS, "8e4d2b31"))
    assert (found.leaf_id, found.model) == ("h2", ("gemini-3-pro", None))
    assert found.session.facts == {}
    assert found.session.first_message == "long talk"
    assert found.context() == [
        ("line-4", "user: <state_snapshot>talked long</state_snapshot>"),
        ("line-4", "assistant: Got it. Thanks for the additional context!"),
        ("v2", "user: go on"),
        ("h2", "assistant: Going on."),
    ]
    assert found.texts("h1") == ["user: long talk", "assistant: Long answer."]
    assert found.usage == Usage(5700, 406, 0, 0, 6106)


# -- messages -------------------------------------------------------------------------------------


def test_a_message_that_says_more_adds_what_its_earlier_lines_lack() -> None:
    found = ReadSession(
        GeminiCliReading(),
        HEAD,
        user("u1", "go"),
        model("g1", "I look."),
        model("g1", "I look.", tokens=tokens(10, 4, thoughts=1)),
        model("g1", "I look.", tokens=tokens(10, 4, thoughts=1)),
        model("g1", "I look.", tokens=tokens(12, 6), toolCalls=[call("c1", status="executing")]),
        model("g1", "I look.", tokens=tokens(12, 6), toolCalls=[call("c1", "a.txt"), call("c2")]),
    )
    assert found.texts() == [
        "user: go",
        "assistant: I look. + ls c1 {} + ls c2 {}",
        "result of ls c1: a.txt",
        "result of ls c2: success",
    ]
    assert found.usage == Usage(12, 6, 0, 0, 18)
    # A line that says nothing new is a record.
    assert found.types() == ["metadata", *["message"] * 3, "copy.gemini", *["message"] * 2]
    contents = [found.entry(at)["message"]["content"] for at in (3, 4)]
    assert contents == ["I look.", []]


def test_more_of_an_answer_that_has_followers_still_joins_the_answer() -> None:
    found = ReadSession(
        GeminiCliReading(),
        HEAD,
        model("g1", "I look."),
        user("u1", "faster"),
        model("g1", "I look.", toolCalls=[call("c1", "a.txt")]),
        user("u2", "thanks"),
    )
    assert found.context() == [
        ("g1", "assistant: I look. + ls c1 {}"),
        ("g1.4", "result of ls c1: a.txt"),
        ("u1", "user: faster"),
        ("u2", "user: thanks"),
    ]


@pytest.mark.parametrize("again", [user("m", "new"), model("m", "new")])
def test_a_message_that_says_something_else_stands_beside_its_earlier_version(again: Any) -> None:
    found = ReadSession(
        GeminiCliReading(), HEAD, user("u1", "go"), {**again, "content": "old"}, again
    )
    role = {"user": "user", "gemini": "assistant"}[again["type"]]
    assert found.context() == [("u1", "user: go"), ("m.4", f"{role}: new")]
    assert found.texts("m") == ["user: go", f"{role}: old"]
    # More of the new version joins the new version.
    if role == "assistant":
        found.take_all([model("m", "new", toolCalls=[call("c1", "x")])])
        assert found.texts()[1:] == ["assistant: new + ls c1 {}", "result of ls c1: x"]


def test_parts_that_come_again_or_twice_are_counted_apart() -> None:
    once, twice = [{"text": "b"}], [{"text": "b"}, {"text": "b"}]
    answer = model("m", "")
    found = ReadSession(
        GeminiCliReading(), HEAD, {**answer, "content": once}, {**answer, "content": twice}
    )
    assert found.context() == [("m", "assistant: b + b")]
    asked = user("m", "")
    found = ReadSession(
        GeminiCliReading(), HEAD, {**asked, "content": once}, {**asked, "content": twice}
    )
    assert found.context() == [("m.3", "user: b + b")]
    assert "responseId" not in found.entry(3)["message"]


def test_another_version_behind_followers_comes_behind_them() -> None:
    found = ReadSession(
        GeminiCliReading(), HEAD, user("u1", "old"), model("g1", "yes"), user("u1", "new")
    )
    assert found.texts() == ["user: old", "assistant: yes", "user: new"]


def test_an_older_answer_that_is_written_anew_stays_at_its_place() -> None:
    old = model("g1", "old", toolCalls=[call("c1", "x")], tokens=tokens(5, 2))
    new = model("g1", "new", toolCalls=[call("c1", "y")], tokens=tokens(5, 3))
    found = ReadSession(GeminiCliReading(), HEAD, user("u1", "go"), old, user("u2", "next"), new)
    words = ["assistant: new + ls c1 {}", "result of ls c1: y", "user: next"]
    assert found.texts()[1:] == words
    assert found.usage == Usage(5, 3, 0, 0, 8)
    more = model("g1", "new", toolCalls=[call("c1", "y"), call("c2", "z")])
    assert found.take_all([more]).texts()[1:] == [
        "assistant: new + ls c1 {} + ls c2 {}",
        "result of ls c1: y",
        "result of ls c2: z",
        "user: next",
    ]


def test_an_id_of_another_type_is_another_message() -> None:
    found = ReadSession(
        GeminiCliReading(), HEAD, user("m", "one"), model("m", "two"), model("m", "two", model="p")
    )
    assert found.context() == [("m", "user: one"), ("m.3", "assistant: two")]


@pytest.mark.parametrize("bad", ["", "has space", "x" * 129, "line-7", None])
def test_an_id_that_an_entry_cannot_have_is_replaced(bad: Any) -> None:
    found = ReadSession(GeminiCliReading(), HEAD, user(bad, "one"), user("u2", "two"))
    assert found.context() == [("line-2", "user: one"), ("u2", "user: two")]
    found.take_all([{"$rewindTo": "u2"}, user(bad, "other")])
    assert found.texts()[-1:] == ["user: other"]


@pytest.mark.parametrize("text", ["/help", "?", "<session_context>x", "<hook_context>x", " "])
def test_what_the_program_asks_itself_is_a_record(text: str) -> None:
    found = ReadSession(GeminiCliReading(), HEAD, user("c1", text), user("u1", "one"))
    assert found.context() == [("u1", "user: one")]
    assert found.types()[1] == "user"
    assert found.session.first_message == "one"


@pytest.mark.parametrize("kind", ["info", "error", "warning"])
def test_notices_are_records_also_when_they_come_again(kind: str) -> None:
    notice = {"id": "n", "timestamp": TIME, "type": kind, "content": "careful"}
    found = ReadSession(
        GeminiCliReading(), HEAD, user("u1", "one"), notice, notice, model("g1", "two")
    )
    assert found.types()[2:4] == [kind, kind]
    assert found.entry(3)["data"] == notice
    assert found.texts() == ["user: one", "assistant: two"]


def test_parts_that_are_no_text_are_shown() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    found = ReadSession(
        GeminiCliReading(),
        HEAD,
        {**user("u1", ""), "content": [image, {"fileData": {"fileUri": "x"}}]},
    )
    content = found.entry(2)["message"]["content"]
    assert content == [
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"fileData": {"fileUri": "x"}},
    ]


def test_a_call_without_an_outcome_has_no_result_while_it_runs() -> None:
    for status, words in (("executing", []), ("cancelled", ["result of ls c failed: cancelled"])):
        found = ReadSession(
            GeminiCliReading(), HEAD, model("g1", "", toolCalls=[call("c", status=status)])
        )
        assert found.texts() == ["assistant: ls c {}", *words]


# -- rewinds --------------------------------------------------------------------------------------


def test_a_rewind_goes_back_to_before_the_message() -> None:
    lines = [HEAD, user("u1", "one"), model("g1", "first"), user("u2", "two")]
    found = ReadSession(GeminiCliReading(), *lines, {"$rewindTo": "u2"}, user("u3", "three"))
    assert found.texts() == ["user: one", "assistant: first", "user: three"]
    assert (found.entry(5)["type"], found.entry(5)["target_id"]) == ("leaf", "g1")
    found = ReadSession(GeminiCliReading(), *lines, {"$rewindTo": "u1"})
    assert (found.leaf_id, found.texts()) == (None, [])


def test_a_rewind_to_a_notice_keeps_what_comes_before() -> None:
    notice = {"id": "n", "timestamp": TIME, "type": "info", "content": "x"}
    found = ReadSession(
        GeminiCliReading(), HEAD, user("u1", "one"), notice, model("g1", "two"), {"$rewindTo": "n"}
    )
    assert found.texts() == ["user: one"]


@pytest.mark.parametrize("target", ["nothing", None, 7])
def test_a_rewind_to_an_unknown_message_removes_all(target: Any) -> None:
    found = ReadSession(
        GeminiCliReading(), HEAD, user("u1", "one"), model("g1", "first"), {"$rewindTo": target}
    )
    assert (found.leaf_id, found.texts()) == (None, [])
    assert found.take_all([user("u2", "two")]).texts() == ["user: two"]


def test_a_message_that_was_taken_off_comes_as_a_new_one() -> None:
    found = ReadSession(
        GeminiCliReading(), HEAD, user("u1", "one"), {"$rewindTo": "u1"}, user("u1", "one")
    )
    assert found.context() == [("u1.4", "user: one")]


# -- replaced lists -------------------------------------------------------------------------------


def test_a_list_that_only_became_shorter_is_a_move() -> None:
    one, first = user("u1", "one"), model("g1", "first")
    lines = [HEAD, one, first, user("u2", "two")]
    found = ReadSession(GeminiCliReading(), *lines, replaced(one, first), user("u3", "three"))
    assert found.texts() == ["user: one", "assistant: first", "user: three"]
    assert "compaction" not in found.types()
    same = ReadSession(GeminiCliReading(), *lines, replaced(one, first, user("u2", "two")))
    assert (same.leaf_id, same.types()[-1]) == ("u2", "$set")
    empty = ReadSession(GeminiCliReading(), *lines, replaced())
    assert (empty.leaf_id, empty.types()[-1]) == (None, "leaf")


def test_a_masked_result_makes_a_replaced_list() -> None:
    answer = model("g1", "look", toolCalls=[call("c1", "long")])
    masked = model("g1", "look", toolCalls=[call("c1", "[masked]")])
    found = ReadSession(
        GeminiCliReading(), HEAD, user("u1", "one"), answer, replaced(user("u1", "one"), masked)
    )
    assert found.texts() == [
        "user: one",
        "assistant: look + ls c1 {}",
        "result of ls c1: [masked]",
    ]


def test_a_list_without_words_empties_the_context() -> None:
    notice = {"id": "n", "type": "info", "content": "x"}
    found = ReadSession(
        GeminiCliReading(), HEAD, user("u1", "one"), replaced(notice), user("u1", "one")
    )
    assert found.context() == [("u1.4", "user: one")]


def test_a_message_of_a_replaced_list_may_come_again() -> None:
    lines = [HEAD, user("u1", "one"), replaced(user("k1", "summary"), model("k2", "so"))]
    found = ReadSession(GeminiCliReading(), *lines, model("k2", "so be it"), user("u2", "two"))
    assert found.texts() == ["user: summary", "assistant: so be it", "user: two"]
    again = ReadSession(
        GeminiCliReading(), *lines, model("k2", "so be it"), model("k2", "so be it")
    )
    assert again.types()[3:] == ["compaction", "copy.gemini"]
    # With only its tokens, the message stays as it is and the tokens count.
    found = ReadSession(
        GeminiCliReading(), *lines, model("k2", "so", tokens=tokens(5, 2)), user("u2", "two")
    )
    assert found.texts() == ["user: summary", "assistant: so", "user: two"]
    assert (found.usage, found.types()[3]) == (Usage(5, 2, 0, 0, 7), "usage")
    # Behind other messages, the version comes behind them.
    found = ReadSession(GeminiCliReading(), *lines, user("u2", "two"), model("k2", "so be it"))
    assert found.texts()[1:] == ["assistant: so", "user: two", "assistant: so be it"]


@pytest.mark.parametrize("kept", [1, 2])
def test_a_rewind_to_what_the_model_does_not_see_in_a_list_keeps_what_comes_before(
    kept: int,
) -> None:
    said = [user("k1", "summary"), model("k2", "so")]
    notice, command = {"id": "n", "type": "info", "content": "x"}, user("c", "/stats")
    members = [*said[:kept], notice, command, *said[kept:]]
    for target in ("n", "c"):
        found = ReadSession(
            GeminiCliReading(), HEAD, user("u1", "one"), replaced(*members), {"$rewindTo": target}
        )
        assert found.texts() == ["user: summary", "assistant: so"][:kept]
    # Neither does a list lose its notices that only became shorter, or is the same for the model.
    whole = [HEAD, *said, user("u2", "two")]
    for patch in (replaced(*members), replaced(*members, user("u2", "two"))):
        found = ReadSession(
            GeminiCliReading(), *whole, patch, {"$rewindTo": "c"}, user("u3", "three")
        )
        assert found.texts() == [*["user: summary", "assistant: so"][:kept], "user: three"]


def test_a_rewind_into_a_replaced_list_cuts_the_list() -> None:
    members = [user("k1", "summary"), model("k2", "so"), user("k3", "then")]
    lines = [HEAD, user("u1", "one"), replaced(*members), user("u2", "two")]
    for target, words in (
        ("u2", ["summary", "so", "then"]),
        ("k3", ["summary", "so"]),
        ("k2", ["summary"]),
        ("k1", []),
    ):
        found = ReadSession(GeminiCliReading(), *lines, {"$rewindTo": target}, user("u3", "three"))
        assert [text.split(": ")[1] for text in found.texts()] == [*words, "three"]
    cut = ReadSession(GeminiCliReading(), *lines, {"$rewindTo": "k3"}, {"$rewindTo": "k2"})
    assert cut.texts() == ["user: summary"]
    shorter = ReadSession(GeminiCliReading(), *lines, replaced(*members[:2]), user("u3", "three"))
    assert shorter.texts() == ["user: summary", "assistant: so", "user: three"]
    # The cut list stands beside the whole one.
    assert [shorter.entry(at)["parent_id"] for at in (3, 5)] == ["u1", "u1"]
    ended = ReadSession(GeminiCliReading(), *lines, replaced(*members), user("u3", "three"))
    assert ended.texts()[2:] == ["user: then", "user: three"]
    assert "leaf" in ended.types()


def test_a_list_too_long_to_keep_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemini_module, "GEMINI_LIST_BYTES_MAX", 10)
    lines = [HEAD, replaced(user("k1", "summary"), model("k2", "so")), user("u2", "two")]
    found = ReadSession(GeminiCliReading(), *lines, {"$rewindTo": "k2"})
    assert found.texts() == ["user: summary", "assistant: so"]
    found = ReadSession(GeminiCliReading(), *lines[:2], model("k2", "so be it"))
    assert found.texts() == ["user: summary", "assistant: so", "assistant: so be it"]


# -- facts ----------------------------------------------------------------------------------------


def test_a_patch_states_title_folders_and_session() -> None:
    found = ReadSession(
        GeminiCliReading(),
        HEAD,
        {"$set": {"summary": "first", "directories": ["/a"]}},
        {"$set": {"summary": "first", "lastUpdated": "2026-01-15T11:00:00.000Z"}},
        {"$set": {"summary": "second", "sessionId": "other"}},
        {"$set": {"summary": None, "memoryScratchpad": {}}},
    )
    assert found.types() == ["metadata", "session_info", "$set", "session_info", "$set"]
    assert found.session.facts == {"auto_title": "second"}
    assert bytes(found.origin.facts["directories"]) == b'["/a"]'
    assert found.origin.session_id == "other"
    assert found.entry(1)["timestamp"] == HEAD["startTime"]
    assert found.entry(3)["timestamp"] == "2026-01-15T11:00:00.000Z"


@pytest.mark.parametrize(("kind", "is_subagent"), [("main", False), ("subagent", True)])
def test_the_head_tells_a_subagent(kind: str, is_subagent: bool) -> None:
    assert ReadSession(GeminiCliReading(), HEAD | {"kind": kind}).origin.is_subagent == is_subagent


def test_a_title_beside_a_replaced_list_is_told_by_the_next_patch() -> None:
    found = ReadSession(
        GeminiCliReading(), HEAD, user("u1", "one"), replaced(user("k", "sum"), summary="title")
    )
    assert (found.types()[-1], found.session.facts) == ("compaction", {})
    found.take_all([{"$set": {"lastUpdated": TIME}}])
    assert found.session.facts == {"auto_title": "title"}


def test_the_lines_of_an_old_document_are_read_as_lines() -> None:
    document = HEAD | {"summary": "old", "messages": [user("u1", "one"), model("g1", "a\nb")]}
    lines = list(document_lines(json.dumps(document, indent=1).encode()) or ())
    found = ReadSession(GeminiCliReading(), *lines)
    assert found.texts() == ["user: one", "assistant: a\nb"]
    assert (found.session.facts, found.types()[0]) == ({"auto_title": "old"}, "session_info")
    assert document_lines(b'{"messages":[]}') is None


# -- records --------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["leaf", "message", "session", "usage", "compaction", "label"])
def test_a_word_of_gemini_never_is_an_entry_of_ours(word: str) -> None:
    found = ReadSession(
        GeminiCliReading(), HEAD, user("u1", "one"), {"id": "x", "type": word, "target_id": None}
    )
    assert found.types()[-1] == f"gemini-cli.{word}"
    assert found.leaf_id == "u1"


def test_lines_of_no_known_form_are_records_and_bad_lines_keep_their_numbers() -> None:
    found = ReadSession(
        GeminiCliReading(),
        HEAD,
        {"any": 1},
        b"[]",
        b"",
        {"$rewindTo": "x"},
        {"type": "user", "content": "a"},
    )
    assert [found.entry(at)["type"] for at in (2, 5, 6)] == ["none", "leaf", "message"]
    assert (found.leaf_id, found.session.problem_count) == ("line-6", 1)


def test_a_reading_keeps_no_messages() -> None:
    def lines() -> Iterator[bytes]:
        for at in range(200):
            yield json.dumps(user(f"u{at}", f"{at} " * 2000)).encode()
            answer = model(f"g{at}", f"{at} " * 2000, toolCalls=[call("c", "x" * 5000)])
            yield json.dumps(answer).encode()

    assert bytes_kept(GeminiCliReading(), lines()) < 400 * 1000


# -- laws -----------------------------------------------------------------------------------------


MIXED = spelled(
    HEAD,
    user("u1", "one"),
    model("g1", "first"),
    model("g1", "first", tokens=tokens(5, 1)),
    model("g1", "first", tokens=tokens(5, 1), toolCalls=[call("c1", "x")]),
    user("u2", "two"),
    replaced(user("u1", "one"), model("g1", "first")),
    {"$set": {"summary": "title"}},
    replaced(user("k1", "sum"), model("k2", "so"), user("k3", "then")),
    model("k2", "so be it"),
    user("u3", "three"),
    {"$rewindTo": "k3"},
    model("g3", "x"),
    model("k2", "again"),
    {"$rewindTo": "u3"},
    model("g1", "other"),
    user("u1", "/help"),
)


@pytest.mark.parametrize("path", [*FILES, None], ids=lambda path: path and path.stem[-4:])
def test_lines_cut_mixed_doubled_and_unknown_break_no_law(path: Path | None) -> None:
    lines = MIXED if path is None else path.read_bytes().splitlines()
    check_reading(GeminiCliReading, lines)
    for variant in variants(lines, str(path and path.stem), 200):
        found = check_reading(GeminiCliReading, variant)
        assert found.lines == ReadSession(GeminiCliReading(), *variant).lines
