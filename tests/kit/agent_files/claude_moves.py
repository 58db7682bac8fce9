"""All moves of a talk with Claude Code, by name, and the scripts that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.kit.agent_files import claude_compactions as compactions
from tests.kit.agent_files import claude_lines as shapes
from tests.kit.agent_files.claude import ClaudeScript, Subagent, Whose, answer
from tests.kit.agent_files.dice import START_MS, Sizes
from tests.kit.agent_files.said import Json

Move = Callable[[ClaudeScript], None]


def _plain(script: ClaudeScript) -> None:
    script.turn()


def _tools(script: ClaudeScript) -> None:
    script.turn(1)


def _parallel(script: ClaudeScript) -> None:
    script.turn(script.dice.number(2, 4), early=script.dice.chance(0.6))


def _joined(script: ClaudeScript) -> None:
    script.turn(2, joined=True)


def _images(script: ClaudeScript) -> None:
    script.prompt([shapes.text(script.words()), shapes.image()])
    script.count("image_in_prompt")
    answer(script, 2, pictures=True)
    answer(script)


def _rewind(script: ClaudeScript) -> None:
    """Say something else below an earlier line: no line tells of the rewind itself."""
    back = script.go_back()
    if back is not None:
        script.talk, script.hang = back.before, back.parent
        script.count("rewind_without_pin")
    script.turn(script.dice.number(0, 1))


def _pin(script: ClaudeScript) -> None:
    back = script.go_back(farther=True)
    if back is None or back.before is None or back.parent in script.kept_ids:
        return
    script.talk, script.hang = back.before, back.parent
    script.note(
        "last-prompt", lastPrompt="earlier", leafUuid=script.hang, explicit=True, rewound=True
    )
    script.count("rewind_with_pin")


def _pin_nothing(script: ClaudeScript) -> None:
    script.talk, script.hang = None, None
    script.note("last-prompt", lastPrompt="", leafUuid=None, explicit=True, rewound=True)
    script.count("rewind_to_nothing")


def _last_prompt(script: ClaudeScript) -> None:
    if script.talk is None or script.talk.kept or script.talk.role in ("summary", "marker"):
        return
    if script.dice.chance(0.5):
        script.link("attachment", attachment={"type": "todo_reminder", "content": []})
        script.count("last_prompt_at_attachment")
    script.note("last-prompt", lastPrompt=script.words(), leafUuid=script.hang)
    script.count("last_prompt")


def _sidechain(script: ClaudeScript) -> None:
    """Write a subagent's talk into the main file, as old versions did."""
    parent: str | None = None
    for role in ("user", "assistant", "user", "assistant"):
        message: Json = {"role": role, "content": script.words()}
        if role == "assistant":
            message |= {
                "id": f"msg_{script.dice.hex(16)}",
                "type": "message",
                "model": "claude-haiku-5",
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "content": [shapes.text(script.words())],
                "usage": shapes.usage(script.dice),
            }
        line = script.tree_line(role, parent, message=message) | {"isSidechain": True}
        parent = script.put_tree(line)
    script.count("sidechain")


def _team(script: ClaudeScript) -> None:
    line = script.tree_line(
        "user",
        script.hang,
        message={"role": "user", "content": script.words()},
        teamName="crew",
        agentName="scout",
    )
    script.put_tree(line)
    script.count("team")


def _bookkeeping(script: ClaudeScript) -> None:
    for line in shapes.bookkeeping(script.dice, script.whose.session_id, script.hang):
        script.put(line)
        script.count(f"kind {line['type']}")
    script.count("bookkeeping")


def _unknown(script: ClaudeScript) -> None:
    for line in shapes.unknown(script.dice, script.whose.session_id):
        script.put(line)
    script.count("unknown")


def _titles(script: ClaudeScript) -> None:
    dice = script.dice
    kinds = ("ai-title", "custom-title", "tag", "summary", "ai-title")
    before = sum(script.features[name] for name in ("title", "tag", "summary"))
    kind = kinds[before % len(kinds)]
    if kind == "summary":
        script.put({"type": "summary", "summary": dice.text(20), "leafUuid": dice.uuid()})
    elif kind == "tag":
        script.note("tag", tag=dice.pick(("", "draft", "later")))
    else:
        member = {"ai-title": "aiTitle", "custom-title": "customTitle"}[kind]
        script.note(kind, **{member: dice.text(20)})
    script.count("title" if kind.endswith("title") else kind)


def _links(script: ClaudeScript) -> None:
    """Write lines that only link the chain, between two turns."""
    script.link("system", subtype="turn_duration", durationMs=1200, level="info", isMeta=False)
    script.link("progress", data={"type": "hook_progress"}, toolUseID="toolu_x")
    script.link("system", subtype="microcompact_boundary", content="", level="info", isMeta=False)
    script.link("attachment", attachment={"type": "file", "filename": "a.txt", "content": {}})
    script.count("links")


def _meta(script: ClaudeScript) -> None:
    """Write what a local command leaves: a caveat, the command, its output."""
    said = "<local-command-stdout>ok</local-command-stdout>"
    for content, meta in (("Caveat: made by hand.", True), ("<command-name>/cost</command-name>", False),
                          (said, False)):  # fmt: skip
        more: Json = {"isMeta": True} if meta else {}
        line = script.tree_line(
            "user", script.hang, message={"role": "user", "content": content}, **more
        )
        script.hang = script.put_tree(line)
        script.step("user", script.hang)
    script.count("meta")
    script.turn()


def _queued(script: ClaudeScript) -> None:
    """Write a prompt that came while the model worked."""
    script.prompt()
    answer(script, 1)
    uuid = script.link(
        "attachment", attachment={"type": "queued_command", "prompt": script.words()}
    )
    script.step("user", uuid, attached=True)
    answer(script)
    script.count("queued_command")


def _error(script: ClaudeScript) -> None:
    """Write an error of the API as the reply."""
    script.prompt()
    message = {
        "id": f"err-{script.dice.hex(16)}",
        "type": "message",
        "role": "assistant",
        "model": "<synthetic>",
        "content": [shapes.text("API Error: 529")],
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "usage": shapes.nothing_used(),
    }
    line = script.tree_line("assistant", script.hang, message=message, isApiErrorMessage=True)
    script.hang = script.put_tree(line)
    script.step("assistant", script.hang)
    script.count("api_error")


def _gap(script: ClaudeScript) -> None:
    """Go on below a line that is not there."""
    script.hang = script.dice.uuid()
    script.count("missing_parent")
    script.turn()


def _surrogate(script: ClaudeScript) -> None:
    """Write half of a sign beyond 16 bits, as a cut text has it."""
    script.prompt(f"{script.words()} \ud83d")
    answer(script)
    script.count("lone_surrogate")


def _subagent(script: ClaudeScript) -> None:
    """Call a subagent, whose talk is in a file of its own."""
    script.prompt()
    (asked,) = answer(script, 1)
    answer(script)
    agent_id = script.dice.hex(17)
    own = ClaudeScript(
        f"{script.seed} {agent_id}",
        Sizes(3, script.sizes.text_bytes, script.sizes.result_bytes),
        moves={"plain": _plain, "tools": _tools, "parallel": _parallel},
        whose=Whose(script.whose.session_id, script.whose.cwd, agent_id),
        start_ms=script.dice.now_ms,
    )
    lines = tuple(own)
    meta: Json = {
        "agentType": "Explore",
        "description": script.words(),
        "toolUseId": asked,
        "spawnDepth": 1,
    }
    script.subagents.append(Subagent(agent_id, lines, meta, tuple(own.order)))
    script.count("subagent")


MOVES: Final[Mapping[str, Move]] = {
    "plain": _plain,
    "tools": _tools,
    "parallel": _parallel,
    "joined": _joined,
    "images": _images,
    "rewind": _rewind,
    "pin": _pin,
    "pin_nothing": _pin_nothing,
    "last_prompt": _last_prompt,
    "sidechain": _sidechain,
    "team": _team,
    "bookkeeping": _bookkeeping,
    "unknown": _unknown,
    "titles": _titles,
    "links": _links,
    "meta": _meta,
    "queued": _queued,
    "error": _error,
    "gap": _gap,
    "surrogate": _surrogate,
    "subagent": _subagent,
    "compact_tail": compactions.keep_and_hang_on_tail,
    "compact_summary": compactions.keep_and_hang_on_summary,
    "compact_segment": compactions.keep_a_segment,
    "compact_nothing": compactions.keep_nothing,
    "compact_later_tail": compactions.keep_a_tail_that_comes_later,
    "compact_twice": compactions.compact_twice,
    "compact_at_once": compactions.compact_at_once_again,
    "rewind_past": compactions.rewind_past,
}

# A talk of plain turns, for sizes and times.
PLAIN: Final[Mapping[str, Move]] = {"plain": _plain, "tools": _tools, "parallel": _parallel}

_SIZES: Final = Sizes()


def claude_script(
    seed: int | str,
    sizes: Sizes = _SIZES,
    *,
    moves: Mapping[str, Move] = MOVES,
    whose: Whose | None = None,
    start_ms: int = START_MS,
) -> ClaudeScript:
    """Return the script of a session of Claude Code; `moves` tells what happens in the talk."""
    return ClaudeScript(seed, sizes, moves=moves, whose=whose, start_ms=start_ms)


def without(*names: str) -> dict[str, Move]:
    """Return the moves but some."""
    assert set(names) <= set(MOVES), names
    return {name: move for name, move in MOVES.items() if name not in names}


__all__ = ["MOVES", "PLAIN", "Move", "claude_script", "without"]
