"""Damaged files of other agents: no whole record is lost, and nothing that a record quotes becomes one.

The second reader gets the whole records alone, and must find what sessiond finds in the damaged file.
"""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

import pytest

from sessiond.dialects import recovery
from sessiond.dialects.agents import AGENTS
from sessiond.dialects.agents.claude_code import ClaudeCodeReading
from sessiond.dialects.agents.codex import CodexReading
from sessiond.dialects.agents.gemini_cli import GeminiCliReading
from sessiond.dialects.agents.reading import Reading
from sessiond.dialects.agents.transcript import Transcript
from sessiond.dialects.recovery import pieces
from tests.kit.agent_files.dice import Sizes
from tests.kit.agents import claude_line
from tests.kit.agreement import KITS, Kit, Spoken, contexts, lines_of
from tests.kit.dice import SEED
from tests.kit.readings import Copy, ReadSession
from tests.kit.wounds import WOUNDS, Wound

SUMMARY = "This session goes on. Summary: "
SIZES = Sizes(turns=7)
SEEDS = 24
# Of each kind of file and each wound, 77 pairs: 2,156 places in all.
PLACES = 28


@cache
def made(name: str, seed: int) -> list[bytes]:
    return lines_of(KITS[name], seed, SIZES)


def places(name: str, wound: str, count: int) -> Iterator[tuple[list[bytes], int, random.Random]]:
    """Yield lines and a place in them, a number of times, and what a wound draws there."""
    chance = random.Random(f"{name} {wound} {SEED}")
    for _ in range(count):
        lines = made(name, SEED + chance.randrange(SEEDS))
        yield lines, chance.randrange(1, len(lines) - 1), chance


def held(kit: Kit, damaged: list[bytes], whole: list[bytes]) -> ReadSession:
    """Return the session of a damaged file; fail unless the second reader finds the same in the whole records."""
    found = ReadSession(AGENTS[kit.agent].reading()).take_all(damaged)
    mine, theirs = contexts(found.messages(), kit.read(whole), kit.agent)
    said, other = plain(said for _, said in mine), plain(said for _, said in theirs)
    assert [*alike(one for one in said if one in other or not is_more(one, other))] == [
        *alike(other)
    ]
    return found


def plain(context: Iterable[Spoken]) -> list[Spoken]:
    """Return a context with each summary as a prompt, once: without its boundary a summary is a message."""
    found: list[Spoken] = []
    for said in context:
        one = replace(said, role={"summary": "user"}.get(said.role, said.role))
        if not (one.text.startswith(SUMMARY) and one in found):
            found.append(one)
    return found


def is_more(said: Spoken, other: list[Spoken]) -> bool:
    """Return whether only sessiond may have a message: the result of a lost call, or a summary too many."""
    asked = {call for one in other if one.role == "assistant" for call in one.calls}
    if said.role == "tool":
        return not asked.intersection(said.calls)
    return said.role == "user" and said.text.startswith(SUMMARY)


def alike(context: Iterable[Spoken]) -> Iterator[Spoken]:
    """Yield what a context says, answers that follow each other as one.

    Where a prompt of Codex is missing, nothing tells where one answer ends. Calls and results have the
    order of their names: of a line that Claude Code wrote twice each reader may have the other one.
    """
    for role, some in groupby(context, lambda said: said.role):
        found = [*some]
        if role == "assistant":
            yield Spoken(
                role,
                "".join(said.text for said in found),
                tuple(sorted(call for said in found for call in said.calls)),
                "".join(said.thinking for said in found),
                sum(said.images for said in found),
            )
        else:
            yield from sorted(found, key=lambda said: said.calls) if role == "tool" else found


def has_no_order(lines: list[bytes], at: int) -> bool:
    """Return whether the file's order alone tells the place of one of two lines.

    So it is for a line that states a fact, for a line below one that the file lacks, and for the summary
    of a compaction.
    """
    first, second = json.loads(lines[at]), json.loads(lines[at + 1])
    if any("uuid" not in one or one.get("isCompactSummary") for one in (first, second)):
        return True
    parent = second.get("parentUuid")
    return parent is not None and not any(b'"uuid":"%b"' % parent.encode() in one for one in lines)


@pytest.mark.drawn
@pytest.mark.parametrize(
    ("name", "wound"),
    [
        pytest.param(name, wound, id=f"{name}-{wound.__name__}")
        for name in KITS
        for wound in WOUNDS.values()
        # No program writes an older answer anew behind a later prompt.
        if (name, wound.__name__) != ("gemini-again", "swapped")
    ],
)
def test_no_whole_record_is_lost(name: str, wound: Wound) -> None:
    kit = KITS[name]
    for lines, at, chance in places(name, wound.__name__, PLACES):
        if wound.__name__ == "swapped" and has_no_order(lines, at):
            continue
        damaged, whole = wound(lines, at, chance)
        if wound.__name__ == "swapped" and kit.agent != "claude-code":
            # The order of a list is what the list says.
            whole = damaged
        held(kit, damaged, whole)


@pytest.mark.parametrize(
    ("name", "wound", "seed", "at"),
    [
        # The first line that a compaction keeps.
        *[("claude", "dropped", seed, at) for seed, at in [(14, 18), (19, 25), (23, 18), (36, 20)]],
        # The first of parallel calls; its result is where the talk goes on, or stands between others.
        *[("claude", "dropped", seed, at) for seed, at in [(31, 33), (35, 26), (39, 31), (69, 3)]],
        *[("claude", "spliced", 166, 38), ("claude", "zeros_spliced", 132, 46)],
        # The summary at which a leaf says to go on.
        ("claude", "dropped", 59, 17),
        # A line between a boundary and its summary.
        *[("claude", "headless", 129, 26), ("claude", "tail_behind", 173, 19)],
        # The mark of a turn behind one in which no user spoke.
        *[("codex", "cut", 123, 28), ("codex", "hole", 128, 43)],
    ],
)
def test_what_searches_found_is_not_lost_again(name: str, wound: str, seed: int, at: int) -> None:
    held(KITS[name], *WOUNDS[wound](made(name, seed), at, random.Random(f"{seed} {at} {wound}")))


@pytest.mark.parametrize(("seed", "at"), [(19, 13), (22, 22), (31, 29)])
def test_a_message_said_anew_is_none_that_a_cut_record_quotes(seed: int, at: int) -> None:
    """The message stands behind a cut record, or before the end of one."""
    lines = made("gemini-again", seed)
    kit, before, message, behind = KITS["gemini-again"], *lines[at - 1 : at + 2]
    ends = [cut for cut in range(1, len(behind)) if behind[cut : cut + 1] in b"}],"]
    for cut in ends:
        damaged = [*lines[:at], message + behind[cut:], *lines[at + 2 :]]
        held(kit, damaged, [*lines[: at + 1], *lines[at + 2 :]])
    values = [cut for cut in range(1, len(before)) if before[cut - 1 : cut] in b":[,"]
    for cut in values:
        damaged = [*lines[: at - 1], before[:cut] + message, *lines[at + 1 :]]
        held(kit, damaged, [*lines[: at - 1], *lines[at:]])
    assert len(ends) >= 5
    assert len(values) >= 4


def twice(lines: list[bytes]) -> Iterator[int]:
    """Yield the places of the lines that a second compaction wrote again, and of their copies."""
    uuids = [json.loads(line).get("uuid") for line in lines]
    for at, uuid in enumerate(uuids[:-1]):
        if uuid is not None and uuids.count(uuid) > 1:
            yield at


def test_of_a_line_that_was_written_twice_one_may_be_lost() -> None:
    """The line stands where it stood, whichever of the two is whole."""
    kit, tries = KITS["claude"], 0
    for seed in range(2 * SEEDS):
        lines = made("claude", seed)
        for at in twice(lines):
            chosen = [*WOUNDS.values()][tries % len(WOUNDS)]
            tries += 1
            if chosen.__name__ != "swapped":
                held(kit, *chosen(lines, at, random.Random(f"{seed} {at}")))
                held(kit, *WOUNDS["dropped"](lines, at, random.Random()))
    assert tries > 200


# -- what a record quotes ---------------------------------------------------------------------------


QUOTED = "quoted, and never said"


def claude_quotes() -> tuple[Callable[[], Reading], list[dict[str, Any]], int]:
    """Return lines of Claude Code of which one holds an older line of the session as a value."""
    lines = [claude_line(1, None, "one"), claude_line(2, 1, "two", "assistant")]
    forged = claude_line(9, 2, QUOTED) | {"timestamp": "2026-01-15T10:00:01.000Z"}
    lines.append(claude_line(3, 2, "three", toolUseResult={"a": 1, "found": [forged], "b": forged}))
    lines.append(claude_line(4, 3, "four", "assistant"))
    return ClaudeCodeReading, lines, 2


def codex_quotes() -> tuple[Callable[[], Reading], list[dict[str, Any]], int]:
    """Return a rollout of which one item holds an older item as a value."""

    def item(second: int, said: str, **more: Any) -> dict[str, Any]:
        content = [{"type": "input_text", "text": said}]
        return {
            "timestamp": f"2026-01-15T10:00:{second:02}.000Z",
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": content, **more},
        }

    head = {"timestamp": "2026-01-15T10:00:00.000Z", "type": "session_meta", "payload": {"id": "x"}}
    forged = item(1, QUOTED)
    lines = [head, item(2, "one"), item(3, "two", found=[forged], more=forged), item(4, "three")]
    return CodexReading, lines, 2


def gemini_quotes() -> tuple[Callable[[], Reading], list[dict[str, Any]], int]:
    """Return a chat of which one message holds an older message as a value."""

    def message(second: int, said: str, **more: Any) -> dict[str, Any]:
        time = f"2026-01-15T10:00:{second:02}.000Z"
        return {"id": f"m{second}", "timestamp": time, "type": "user", "content": said, **more}

    head = {"sessionId": "s", "projectHash": "p", "startTime": "2026-01-15T10:00:00.000Z"}
    forged = message(1, QUOTED)
    more = {"displayContent": [forged], "toolCalls": forged}
    return (
        GeminiCliReading,
        [head, message(2, "one"), message(3, "two", **more), message(4, "x")],
        2,
    )


@pytest.mark.parametrize("quotes", [claude_quotes, codex_quotes, gemini_quotes])
@pytest.mark.parametrize("spaces", [(",", ":"), (", ", ": ")])
def test_what_a_record_quotes_is_never_an_entry(
    quotes: Callable[[], tuple[Callable[[], Reading], list[dict[str, Any]], int]],
    spaces: tuple[str, str],
) -> None:
    make, said, at = quotes()
    lines = [json.dumps(one, separators=spaces).encode() for one in said]
    whole = lines[at]
    for end in range(1, len(whole)):
        wounds = [
            [whole[:end]],
            [whole[end:]],
            [whole[:end] + lines[at + 1]],
            [whole[end:] + lines[at + 1]],
            [lines[at + 1] + whole[end:]],
            [whole[:end] + bytes(7) + whole[end:], lines[at + 1]],
            [whole[:end] + bytes(7) + whole[end + 7 :], lines[at + 1]],
        ]
        # Beside a sign of the grammar each wound counts, elsewhere all are alike.
        is_beside = any(sign in b"{}[]:," for sign in whole[end - 1 : end + 1])
        for wounded in wounds if is_beside else [wounds[end % len(wounds)]]:
            found = ReadSession(make(), *lines[:at], *wounded)
            assert not any(QUOTED in text for text in found.texts()), wounded
            assert len(found.session.names) <= len(lines) + 1


# -- damaged lines ----------------------------------------------------------------------------------


def test_a_damaged_line_is_told_once_and_counts_its_records() -> None:
    first, second, third = (
        json.dumps(line).encode()
        for line in (claude_line(1, None, "a"), claude_line(2, 1, "b"), claude_line(3, 2, "c"))
    )
    found = ReadSession(ClaudeCodeReading(), first + bytes(9) + second, third)
    assert found.problems() == [(1, "damaged_line")]
    detail = found.session.problems[0].detail
    assert detail == "line 1 of the file is damaged: whole records 2, other bytes 9"
    assert [json.loads(line)["id"] for line in found.lines] == ["u-1", "u-2", "u-3"]
    copy = Copy("claude-code", b"\n".join([first + bytes(9) + second, third]))
    assert [(one.line, one.kind, one.detail) for one in copy.report.problems] == [
        (1, "damaged_line", detail)
    ]


def test_a_record_of_another_session_is_none_of_this_one() -> None:
    other = claude_line(9, 1, "no", sessionId="another")
    line = json.dumps(claude_line(2, 1, "cut off")).encode()[:-4] + json.dumps(other).encode()
    found = ReadSession(ClaudeCodeReading(), claude_line(1, None, "a"), line)
    assert found.texts() == ["user: a"]


@pytest.mark.parametrize(
    "part",
    [
        b'{"',
        b'{"a":',
        b'"{',
        b'{"a":[{}],',
        b'{"a":"\\"',
        b"[",
        b'{"a":"' + b"x" * 99 + b"\0",
        b"{}",
    ],
)
def test_a_line_of_any_length_is_searched_in_linear_time(
    part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting:
        """A pattern that counts the bytes that were looked at."""

        def __init__(self, pattern: Any) -> None:
            self.pattern, self.bytes = pattern, 0

        def match(self, line: bytes, at: int) -> Any:
            found = self.pattern.match(line, at)
            self.bytes += found.end() - at if found else 1
            return found

    looked: list[int] = []
    compiled = recovery._compiled
    for count in (200, 400, 800):
        counting = Counting(compiled(recovery._TOKEN))
        with monkeypatch.context() as patch:
            patch.setattr(
                recovery,
                "_compiled",
                lambda one, it=counting: it if one == recovery._TOKEN else compiled(one),
            )
            list(pieces(part * count))
        looked.append(counting.bytes)
    assert looked[2] <= 2 * looked[1] + 99
    assert looked[2] <= 3 * len(part) * 800


def test_reading_ahead_keeps_no_line_in_memory() -> None:
    def behind() -> Iterator[bytes]:
        for number in range(10, 200):
            yield json.dumps(claude_line(number, number - 1, "x" * 500_000)).encode()

    transcript = Transcript(ClaudeCodeReading(), behind)
    tracemalloc.start()
    try:
        for _ in transcript.take([json.dumps(claude_line(5, 4, "a")).encode()], is_last=False):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


def test_a_file_in_any_order_is_read_as_one_in_order() -> None:
    lines = [claude_line(at, at - 1 or None, f"said {at}") for at in range(1, 400)]
    whole = ReadSession(ClaudeCodeReading(), *lines)
    chance = random.Random(7)
    for _ in range(3):
        chance.shuffle(lines)
        found = ReadSession(ClaudeCodeReading(), *lines)
        assert (found.lines, found.problems()) == (whole.lines, [])
