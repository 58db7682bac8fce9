"""Sessions of Claude Code, made from a seed; the script also knows what its lines mean.

A script makes moves. After each move `talk` is the context that a reader must find in the lines so far
(`claude_compactions` holds the moves that cut the context, `claude_moves` the list of all moves).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.kit.agent_files import claude_lines as shapes
from tests.kit.agent_files.dice import START_MS, Dice, Sizes, plan, spelled
from tests.kit.agent_files.said import Json, Role, Step, steps_to


@dataclass(frozen=True)
class Subagent:
    """A subagent's own file: the end of its name, its lines, its meta file."""

    agent_id: str
    lines: tuple[bytes, ...]
    meta: Json
    order: tuple[tuple[Role, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Whose:
    """Session that a script writes: its id, its folder, and the subagent whose own file this is."""

    session_id: str
    cwd: str = "/home/ann/ping"
    agent_id: str | None = None


class ClaudeScript:
    """One session of Claude Code in the making; iterate over its lines once."""

    def __init__(
        self,
        seed: int | str,
        sizes: Sizes = Sizes(),  # noqa: B008 - frozen
        *,
        moves: Mapping[str, Callable[[ClaudeScript], None]],
        whose: Whose | None = None,
        start_ms: int = START_MS,
    ) -> None:
        self.seed = seed
        self.dice = Dice(f"claude {seed}", start_ms)
        self.sizes = sizes
        self.whose = whose or Whose(self.dice.uuid())
        self.features: Counter[str] = Counter()
        self.subagents: list[Subagent] = []
        self.talk: Step | None = None
        self.hang: str | None = None
        """Line that the next line of the talk is written below."""
        self.kept_ids: set[str] = set()
        self.before_compaction: Step | None = None
        self.written: dict[str, Json] | None = None
        """Lines by uuid, while a move needs them again."""
        self._moves = moves
        self._out: list[bytes] = []
        self._shared = shapes.envelope(self.whose.session_id, self.whose.cwd, self.whose.agent_id)

    # Reading a script.

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines, without their newlines."""
        for _, lines in self.steps():
            yield from lines

    def steps(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield each move and its lines; until the next move, `order` tells what they mean."""
        for name in plan(self.dice, tuple(self._moves), self.sizes.turns, "plain"):
            self._moves[name](self)
            lines, self._out = self._out, []
            yield name, lines

    @property
    def order(self) -> list[tuple[Role, tuple[str, ...]]]:
        """Return role and ids of each message of the context."""
        return [(step.role, step.ids) for step in steps_to(self.talk)]

    # Writing lines.

    def count(self, feature: str) -> None:
        """Count a feature that the lines now have."""
        self.features[feature] += 1

    def put(self, line: Json) -> None:
        """Write a line."""
        self._out.append(spelled(line))

    def tree_line(self, kind: str, parent: str | None, **more: Any) -> Json:
        """Return a line of the tree, not yet written."""
        return {
            "parentUuid": parent,
            "isSidechain": self.whose.agent_id is not None,
            "type": kind,
            "uuid": self.dice.uuid(),
            "timestamp": self.dice.tick(),
            **self._shared,
            **more,
        }

    def put_tree(self, line: Json) -> str:
        """Write a line of the tree; return its id."""
        self.put(line)
        found: str = line["uuid"]
        if self.written is not None:
            self.written[found] = line
        return found

    def note(self, kind: str, **more: Any) -> None:
        """Write a line without a place in the tree."""
        self.put({"type": kind, **more, "sessionId": self.whose.session_id})

    def words(self) -> str:
        """Return words of a message."""
        return self.dice.text(self.sizes.text_bytes)

    # Parts of a turn.

    def step(self, role: Role, *ids: str, **more: Any) -> None:
        """Add a message to the talk."""
        self.talk = Step(role, ids, self.talk, **more)

    def prompt(self, content: Any = None, **more: Any) -> str:
        """Write a prompt below the end of the talk."""
        message = {"role": "user", "content": self.words() if content is None else content}
        line = self.tree_line("user", self.hang, message=message, promptId=self.dice.uuid(), **more)
        above, self.hang = self.hang, self.put_tree(line)
        self.step("user", self.hang, prompt=True, parent=above)
        return self.hang

    def link(self, kind: str, **more: Any) -> str:
        """Write a line that is only a link of the chain."""
        self.hang = self.put_tree(self.tree_line(kind, self.hang, **more))
        return self.hang

    def turn(self, calls: int = 0, **how: Any) -> None:
        """Write a prompt, a reply with calls and their results, and the last words of the turn."""
        self.prompt()
        if calls:
            answer(self, calls, **how)
        answer(self)

    def go_back(self, *, farther: bool = False) -> Step | None:
        """Return a prompt of the talk that a rewind can take back, or None; `farther` leaves the newest out."""
        found: list[Step] = []
        step, seen = self.talk, 0
        while step is not None and seen < 40:
            if step.prompt and not step.kept:
                found.append(step)
            step, seen = step.before, seen + 1
        found = found[1:] if farther else found
        return self.dice.pick(found) if found else None


def answer(
    script: ClaudeScript,
    calls: int = 0,
    *,
    early: bool = False,
    joined: bool = False,
    pictures: bool = False,
) -> list[str]:
    """Write a reply, a line per block, and the results of its calls; return the ids of its calls.

    `early`: results come between the lines of the reply. `joined`: one line holds all results.
    """
    dice = script.dice
    blocks = _blocks(script, calls)
    lines = _streamed(script, blocks)
    asked: dict[str, str] = {}
    results: dict[str, str] = {}
    for block, line in zip(blocks, lines, strict=True):
        line["parentUuid"] = script.hang
        if block["type"] == "tool_use":
            asked[block["id"]] = line["uuid"]
        script.hang = script.put_tree(line)
        if early and block["type"] == "tool_use" and line is not lines[-1]:
            script.count("result_between_lines")
            results[block["id"]] = _result(script, [block["id"]], line["uuid"], pictures=pictures)
    script.step("assistant", *(line["uuid"] for line in lines), several=len(asked) > 1)
    if joined:
        script.count("joined_results")
        script.hang = _result(script, list(asked), script.hang, pictures=pictures)
        results |= dict.fromkeys(asked, script.hang)
    for one in dice.shuffled([one for one in asked if one not in results]):
        results[one] = script.hang = _result(script, [one], asked[one], pictures=pictures)
    for one in asked:
        script.step("tool", results[one])
    if len(asked) > 1 and not joined:
        script.count("parallel_calls")
    return list(asked)


def _blocks(script: ClaudeScript, calls: int) -> list[Json]:
    """Return the blocks of a reply: perhaps thinking, words, calls."""
    dice = script.dice
    blocks: list[Json] = []
    if dice.chance(0.4):
        words = dice.pick(("", script.words()))
        blocks.append({"type": "thinking", "thinking": words, "signature": dice.hex(8)})
        script.count("thinking")
    if not calls or dice.chance(0.5):
        blocks.append(shapes.text(script.words()))
    if not calls and dice.chance(0.2):
        blocks.append(shapes.text(script.words()))
    return blocks + [shapes.call(dice, dice.pick(("Bash", "Read", "Edit"))) for _ in range(calls)]


def _streamed(script: ClaudeScript, blocks: Sequence[Json]) -> list[Json]:
    """Return the lines of a reply, one a block; early lines mostly have a placeholder as usage."""
    dice = script.dice
    calls = blocks[-1]["type"] == "tool_use"
    final = shapes.usage(dice)
    placeholder = dice.chance(0.8)
    if len(blocks) > 1:
        script.count("chunks" if placeholder else "chunks_with_final_usage")
    message_id, request = f"msg_{dice.hex(16)}", f"req_{dice.hex(10)}"
    model = dice.pick(shapes.MODELS)
    lines: list[Json] = []
    for place, block in enumerate(blocks):
        early = placeholder and place < len(blocks) - 1
        message: Json = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [block],
            "stop_reason": None if early else "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": final | {"output_tokens": 1} if early else final,
        }
        lines.append(script.tree_line("assistant", None, requestId=request, message=message))
    return lines


def _result(
    script: ClaudeScript, asked: Sequence[str], parent: str | None, *, pictures: bool
) -> str:
    """Write the results of calls into one line below another; return its id."""
    dice = script.dice
    blocks: list[Json] = []
    words = ""
    for one in asked:
        words = dice.text(script.sizes.result_bytes)
        content: Any = [shapes.text(words)] if pictures or dice.chance(0.3) else words
        if pictures:
            content.append(shapes.image())
            script.count("image_in_result")
        block: Json = {"type": "tool_result", "tool_use_id": one, "content": content}
        if dice.chance(0.15):
            block["is_error"] = True
            script.count("failed_call")
        elif dice.chance(0.5):
            block["is_error"] = False
        blocks.append(block)
    structured: Any = {"stdout": words, "stderr": "", "interrupted": False, "isImage": False}
    if dice.chance(0.2):
        structured = f"Error: {words}"
    elif dice.chance(0.2):
        structured["persistedOutputPath"] = f"/tool-results/{dice.hex(6)}.txt"
    line = script.tree_line(
        "user",
        parent,
        message={"role": "user", "content": blocks},
        toolUseResult=structured,
        sourceToolAssistantUUID=parent,
    )
    return script.put_tree(line)
