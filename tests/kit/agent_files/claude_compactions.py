"""Moves of Claude Code's talk that cut the context: compactions in all their shapes, and rewinds past them."""

from __future__ import annotations

from tests.kit.agent_files.claude import ClaudeScript, answer
from tests.kit.agent_files.said import Json, Step


def last_turns(script: ClaudeScript, turns: int) -> list[Step]:
    """Return the steps of the last turns, or none if an attachment or a summary is among them."""
    found: list[Step] = []
    step = script.talk
    while step is not None and turns:
        if step.attached or step.role in ("summary", "marker"):
            return []
        found.append(step)
        turns -= _is_prompt(step)
        step = step.before
    return found[::-1] if not turns else []


def _is_prompt(step: Step) -> bool:
    return step.role == "user" and step.prompt


def _unique(steps: list[Step]) -> list[str]:
    """Return the ids of steps, each once: one line can hold the results of several calls."""
    return list(dict.fromkeys(one for step in steps for one in step.ids))


def cut(
    script: ClaudeScript,
    kept: list[Step],
    *,
    segment: bool = False,
    lists: bool = True,
    attached: bool = False,
) -> str:
    """Write a boundary and a summary; return the summary's id. The context is then summary and kept steps."""
    dice = script.dice
    uuids = _unique(kept)
    anchor = dice.uuid()
    about: Json = {"trigger": dice.pick(("auto", "manual")), "preTokens": dice.number(100, 90_000)}
    if uuids and segment:
        ends = {"headUuid": uuids[0], "anchorUuid": anchor, "tailUuid": uuids[-1]}
        about |= {"postTokens": dice.number(10, 90), "preservedSegment": ends}
    if uuids and lists:
        about["preservedMessages"] = {"anchorUuid": anchor, "uuids": uuids, "allUuids": uuids}
    boundary = script.put_tree(
        script.tree_line(
            "system",
            None,
            subtype="compact_boundary",
            logicalParentUuid=script.hang,
            content="Conversation compacted",
            level="info",
            isMeta=False,
            compactMetadata=about,
        )
    )
    above = boundary
    if attached:
        below = script.tree_line("attachment", boundary, attachment={"type": "date", "date": "x"})
        above = script.put_tree(below)
        script.count("summary_below_attachment")
    summary = script.tree_line(
        "user",
        above,
        message={"role": "user", "content": f"This session goes on. Summary: {script.words()}"},
        isCompactSummary=True,
        isVisibleInTranscriptOnly=True,
    )
    script.put_tree(summary | {"uuid": anchor})
    script.before_compaction = script.talk
    script.kept_ids.update(uuids)
    script.talk = None
    script.step("marker", boundary)
    script.step("summary", anchor)
    for step in kept:
        script.step(
            step.role,
            *step.ids,
            several=step.several,
            prompt=step.prompt,
            parent=step.parent,
            kept=True,
        )
    script.hang = anchor
    return anchor


def keep_and_hang_on_tail(script: ClaudeScript) -> None:
    """Compact; the next prompt's parent is the last kept line."""
    script.turn(script.dice.number(0, 3))
    kept = last_turns(script, script.dice.number(1, 2)) or last_turns(script, 1)
    cut(script, kept, segment=True)
    script.hang = _unique(kept)[-1]
    script.count("compaction_next_below_tail")
    script.turn(script.dice.number(0, 1))


def keep_and_hang_on_summary(script: ClaudeScript) -> None:
    """Compact; the next prompt's parent is the summary."""
    script.turn(script.dice.number(0, 3))
    kept = last_turns(script, script.dice.number(1, 2)) or last_turns(script, 1)
    cut(script, kept)
    script.count("compaction_next_below_summary")
    script.turn(script.dice.number(0, 1))


def keep_a_segment(script: ClaudeScript) -> None:
    """Compact as versions did that named only head and tail of the kept lines."""
    script.turn(1)
    kept = last_turns(script, 1)
    cut(script, kept, segment=True, lists=False)
    if script.dice.chance(0.5):
        script.hang = _unique(kept)[-1]
    script.count("compaction_segment_only")
    script.turn()


def keep_nothing(script: ClaudeScript) -> None:
    """Compact without kept lines, sometimes with a link between boundary and summary."""
    script.turn()
    cut(script, [], attached=script.dice.chance(0.5))
    script.count("compaction_keeps_none")
    script.turn()


def keep_a_tail_that_comes_later(script: ClaudeScript) -> None:
    """Compact before the last kept reply is written; the reply then stands below the summary."""
    script.prompt()
    answer(script, 1)
    message = {
        "id": f"msg_{script.dice.hex(16)}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [{"type": "text", "text": script.words()}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 9},
    }
    tail = script.tree_line("assistant", None, requestId="req_tail", message=message)
    tail_id: str = tail["uuid"]
    asked = script.hang
    script.step("assistant", tail_id)
    kept = last_turns(script, 1)
    script.hang = asked
    anchor = cut(script, kept)
    script.put_tree(tail | {"parentUuid": anchor})
    script.hang = tail_id
    script.count("compaction_tail_written_later")
    script.turn()


def compact_twice(script: ClaudeScript) -> None:
    """Compact, say more, compact again; the second compaction writes the kept lines once more."""
    script.written = {}
    script.turn(script.dice.number(0, 2))
    first = last_turns(script, 1)
    cut(script, first, segment=True)
    if script.dice.chance(0.5):
        script.hang = _unique(first)[-1]
    script.turn(script.dice.number(0, 2))
    kept = last_turns(script, 2)
    assert kept[0].kept, "the second compaction keeps lines that the first one kept"
    anchor = cut(script, kept)
    for uuid in _unique(kept):
        script.put(script.written[uuid])
    script.written = None
    script.hang = script.dice.pick((anchor, _unique(kept)[-1]))
    script.count("compaction_again_with_copies")
    script.turn()


def compact_at_once_again(script: ClaudeScript) -> None:
    """Compact twice with nothing between: both compactions keep equal lines."""
    script.turn(script.dice.number(0, 2))
    kept = last_turns(script, 1)
    cut(script, kept)
    anchor = cut(script, kept, segment=True)
    script.hang = script.dice.pick((anchor, _unique(kept)[-1]))
    script.count("compaction_at_once_again")
    script.turn()


def rewind_past(script: ClaudeScript) -> None:
    """Rewind to before the last compaction, so that the old talk is the context."""
    step = script.before_compaction
    seen = 0
    while step is not None and seen < 60:
        free = step.parent is not None and not script.kept_ids.intersection(step.ids)
        if step.prompt and not step.kept and free:
            script.talk, script.hang = step.before, step.parent
            script.before_compaction = None
            script.count("rewind_past_compaction")
            break
        step, seen = step.before, seen + 1
    script.turn()
