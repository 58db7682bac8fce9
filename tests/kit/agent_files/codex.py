"""Sessions of Codex, made from a seed: legacy and paginated, forks and segments.

A script makes moves (`codex_moves`). After each move `talk` is the context that a reader must find in the
lines so far.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.kit.agent_files import codex_lines as shapes
from tests.kit.agent_files.dice import START_MS, Dice, Sizes, plan, spelled, stamp
from tests.kit.agent_files.said import Json, Role, Step, added, parsed, steps_to


@dataclass(frozen=True)
class Cut:
    """Place after a turn, from which a fork or a segment goes on: `end_byte_offset` is after a newline."""

    thread_id: str
    rollout_id: str
    ordinal: int
    offset: int
    talk: Step | None


@dataclass(frozen=True)
class Thread:
    """Thread and file that a script writes; a segment has an id of its own beside the thread's."""

    thread_id: str
    segment_id: str | None = None
    cwd: str = "/home/ann/calc"
    paginated: bool = False
    base: Cut | None = None
    forked_from: str | None = None

    @property
    def rollout_id(self) -> str:
        """Return the last id in the name of the file."""
        return self.segment_id or self.thread_id


class CodexScript:
    """One rollout of Codex in the making; iterate over its lines once."""

    def __init__(
        self,
        seed: int | str,
        sizes: Sizes,
        *,
        moves: Mapping[str, Callable[[CodexScript], None]],
        thread: Thread | None = None,
        start_ms: int = START_MS,
    ) -> None:
        self.dice = Dice(f"codex {seed}", start_ms)
        self.started_ms = start_ms
        self.sizes = sizes
        self.thread = thread or Thread(self.dice.uuid7())
        self.features: Counter[str] = Counter()
        self.talk: Step | None = None
        self.turns: deque[Step | None] = deque(maxlen=6)
        """Talk before each of the last user turns, which a rollback goes back to."""
        self.prompts: list[str] = []
        self.used: dict[str, int] = {}
        """Tokens as a reader must count them."""
        self.total: dict[str, int] = {}
        self.model = shapes.MODELS[0]
        self.turn_id = ""
        self.recent_words: deque[str] = deque(maxlen=3)
        self.cuts: deque[Cut] = deque(maxlen=4)
        self._moves = moves
        self._lines = 0
        self._ordinal = 0
        self._offset = 0
        self._out: list[bytes] = []
        self._copied: Sequence[bytes] = ()

    # Reading a script.

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines, without their newlines."""
        for _, lines in self.steps():
            yield from lines

    def steps(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield each move and its lines; until the next move, `order` tells what they mean."""
        self._head()
        yield "head", self._taken()
        for name in plan(self.dice, tuple(self._moves), self.sizes.turns, "plain"):
            self._moves[name](self)
            if self.thread.paginated:
                self.cuts.append(self._cut())
            yield name, self._taken()

    @property
    def order(self) -> list[tuple[Role, tuple[str, ...]]]:
        """Return role and ids of each message of the context."""
        return [(step.role, step.ids) for step in steps_to(self.talk)]

    def _taken(self) -> list[bytes]:
        lines, self._out = self._out, []
        return lines

    def _cut(self) -> Cut:
        thread = self.thread
        return Cut(thread.thread_id, thread.rollout_id, self._ordinal, self._offset, self.talk)

    # Writing lines.

    def count(self, feature: str) -> None:
        """Count a feature that the lines now have."""
        self.features[feature] += 1

    def put(self, kind: str, payload: Json) -> str:
        """Write a line; return its id."""
        line: Json = {"timestamp": self.dice.tick(0, 700)}
        if self.thread.paginated:
            line["ordinal"] = self._ordinal
        return self._write(line | {"type": kind, "payload": payload})

    def _write(self, line: Json) -> str:
        data = spelled(line)
        self._out.append(data)
        self._lines += 1
        self._ordinal += 1
        self._offset += len(data) + 1
        return f"line-{self._lines}"

    def item(self, payload: Json) -> str:
        """Write an item that the model sees."""
        return self.put("response_item", payload)

    def event(self, kind: str, **payload: Any) -> str:
        """Write an event that the program shows."""
        return self.put("event_msg", {"type": kind, **payload})

    def shown(self, legacy: Json, item: Json) -> None:
        """Write the event of something visible, as the mode of the file has it."""
        if not self.thread.paginated:
            self.put("event_msg", legacy)
            return
        self.event(
            "item_completed",
            thread_id=self.thread.thread_id,
            turn_id=self.turn_id,
            item=item,
            completed_at_ms=self.dice.now_ms,
        )

    def words(self) -> str:
        """Return words of a message."""
        return self.dice.text(self.sizes.text_bytes)

    def step(self, role: Role, *ids: str, **more: Any) -> None:
        """Add a message to the talk."""
        self.talk = Step(role, ids, self.talk, **more)

    # The start of a file.

    def copy(self, lines: Sequence[bytes], talk: Step | None) -> None:
        """Begin with all lines of a parent, as forks of legacy files do."""
        self._copied = lines
        self.talk = renamed(talk, lambda one: _moved_down(one, 1))

    def _head(self) -> None:
        """Write the session_meta line and, in a legacy fork, the parent's lines."""
        thread = self.thread
        meta: Json = {
            "id": thread.thread_id,
            "timestamp": stamp(self.started_ms),
            "cwd": thread.cwd,
            "originator": "codex_cli_rs",
            "cli_version": "0.169.0" if thread.paginated else "0.150.0",
            "source": "cli",
            "model_provider": "openai",
            "git": {"commit_hash": self.dice.hex(8), "branch": "main"},
        }
        if thread.forked_from is not None:
            meta["forked_from_id"] = thread.forked_from
            self.count("fork")
        if thread.paginated:
            meta["history_mode"] = "paginated"
        base = thread.base
        if base is not None:
            meta["history_base"] = {
                "thread_id": base.rollout_id,
                "end_ordinal_exclusive": base.ordinal,
                "end_byte_offset": base.offset,
            }
            self._ordinal = base.ordinal
            self.talk = renamed(base.talk, lambda one: _in_base(one, base.rollout_id))
            self.count("history_base")
        self.put("session_meta", meta)
        for line in parsed(self._copied):
            assert line is not None
            self._write(line | {"timestamp": self.dice.tick(0, 1)})
            self.features["copied_lines"] += 1


def renamed(talk: Step | None, name: Callable[[str], str]) -> Step | None:
    """Return a talk with other ids."""
    found: Step | None = None
    for step in steps_to(talk):
        found = Step(step.role, tuple(map(name, step.ids)), found)
    return found


def _in_base(one: str, rollout_id: str) -> str:
    """Return the id of a line of a base file; a line of the base's own base keeps its id."""
    return f"{rollout_id}/{one}" if one.startswith("line-") else one


def _moved_down(one: str, lines: int) -> str:
    """Return the id of a line that is copied behind other lines."""
    number, slash, rest = one.removeprefix("line-").partition("/")
    return f"line-{int(number) + lines}{slash}{rest}"


def count_tokens(script: CodexScript, *, again: bool = False, reset: bool = False) -> None:
    """Write what a request cost; `again` writes the event once more, `reset` lets the total drop."""
    last = shapes.used(script.dice)
    if reset:
        script.total = {}
        script.count("total_dropped")
    added(script.total, last)
    added(script.used, last)
    info: Json = {
        "total_token_usage": dict(script.total),
        "last_token_usage": last,
        "model_context_window": shapes.WINDOW,
    }
    for _ in range(2 if again else 1):
        script.event("token_count", info=info, rate_limits=None)
    if again:
        script.count("token_count_repeated")
