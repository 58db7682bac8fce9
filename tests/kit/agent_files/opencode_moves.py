"""All moves of a session of opencode's version 1, by name, and the scripts that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from tests.kit.agent_files.dice import PIXEL, START_MS, Sizes
from tests.kit.agent_files.opencode import (
    MODELS,
    TOOLS,
    WRAP_MS,
    Message,
    OpencodeScript,
    Part,
    Talk,
)
from tests.kit.agent_files.said import Json

Move = Callable[[OpencodeScript], None]
# How far a step came: it thinks, has words, has asked for calls, has their results, or is done.
Stage = Literal["begun", "thought", "said", "asked", "answered", "done"]
STAGES: Final[Sequence[Stage]] = ("begun", "thought", "said", "asked", "answered", "done")


# -- prompts --------------------------------------------------------------------------------------


def prompt(script: OpencodeScript, talk: Talk, *parts: Json) -> Message:
    """Write a prompt and its parts, one by one."""
    script.clean_up(talk)
    now = script.dice.now_ms
    model = {"providerID": script.model[0], "modelID": script.model[1]}
    data = {"role": "user", "time": {"created": now}, "agent": "build", "model": model}
    message = script.add(talk, data)
    for part in parts or (words(script),):
        script.add_part(message, part)
    script.change_talk(talk)
    return message


def words(script: OpencodeScript, **more: Any) -> Json:
    """Return a part that is a text."""
    return {"type": "text", "text": script.words(), **more}


def picture() -> Json:
    """Return a part that is an image."""
    url = f"data:image/png;base64,{PIXEL}"
    return {"type": "file", "mime": "image/png", "filename": "dot.png", "url": url}


# -- answers --------------------------------------------------------------------------------------


def begin(script: OpencodeScript, asked: Message, **more: Any) -> Message:
    """Write the row of an answer that is still empty."""
    data: Json = {
        "role": "assistant",
        "time": {"created": script.dice.now_ms},
        "parentID": asked.id,
        "modelID": script.model[1],
        "providerID": script.model[0],
        "mode": "build",
        "agent": "build",
        "path": {"cwd": "/home/ann/site", "root": "/home/ann/site"},
        "cost": 0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
    }
    return script.add(asked.talk, data | more)


def end(script: OpencodeScript, message: Message, **more: Any) -> None:
    """Let an answer be whole."""
    time = message.data["time"] | {"completed": script.later()}
    script.change(message, time=time, **more)


def step(script: OpencodeScript, message: Message, calls: int = 0, upto: Stage = "done") -> None:
    """Write a step of an answer: what it thinks, its words, and its calls with their results."""
    dice, last = script.dice, STAGES.index(upto)
    script.add_part(message, {"type": "step-start"})
    if last >= 1 and (upto == "thought" or dice.chance(0.4)):
        _grow(script, message, {"type": "reasoning", "text": script.words()})
    if last >= 2 and (upto == "said" or not calls or dice.chance(0.5)):
        _grow(script, message, {"type": "text", "text": script.words()})
    if last >= 3 and calls:
        _call(script, message, calls, is_answered=last >= 4)
    if last >= 5:
        reason = "tool-calls" if calls else "stop"
        tokens = script.tokens(message)
        told = {"reason": reason, "cost": 0.25, "tokens": tokens}
        script.add_part(message, {"type": "step-finish", **told})
        cost = message.data["cost"] + 0.25
        script.change(message, finish=reason, tokens=tokens, cost=cost)
        if calls and dice.chance(0.3):
            script.add_part(message, {"type": "patch", "hash": dice.hex(8), "files": ["/a"]})


def _grow(script: OpencodeScript, message: Message, whole: Json) -> None:
    """Write a part that grows in its place."""
    said, now = whole["text"], script.dice.now_ms
    part = script.add_part(message, whole | {"text": "", "time": {"start": now}})
    for share in (2, 1):
        time = {"start": now} | ({"end": script.dice.now_ms} if share == 1 else {})
        script.change_part(part, whole | {"text": said[: len(said) // share], "time": time})


def _call(script: OpencodeScript, message: Message, calls: int, *, is_answered: bool) -> None:
    """Write calls of one step, which run and end in orders of chance."""
    made: list[Part] = []
    for _ in range(calls):
        state = {"status": "pending", "input": {}, "raw": ""}
        call = {"callID": f"call_{script.dice.hex(12)}", "tool": script.dice.pick(TOOLS)}
        made.append(script.add_part(message, {"type": "tool", **call, "state": state}))
    # A user may stop an answer before all calls run.
    for part in script.dice.shuffled(made)[: None if is_answered else script.dice.number(0, calls)]:
        run(script, part)
    if is_answered:
        for part in script.dice.shuffled(made):
            finish(script, part)
    if calls > 1:
        script.count("parallel_calls")


def run(script: OpencodeScript, part: Part, **more: Any) -> None:
    """Let a call run."""
    given = {"filePath": f"/home/ann/{script.dice.hex(4)}"}
    time = {"start": script.later()}
    state = {"status": "running", "input": given, "title": "a", "time": time, **more}
    script.change_part(part, part.data | {"state": state})


def finish(script: OpencodeScript, part: Part) -> None:
    """Let a running call end."""
    dice, state = script.dice, part.data["state"]
    time = state["time"] | {"end": script.later()}
    said = dice.text(script.sizes.result_bytes)
    ended: Json
    if dice.chance(0.2):
        ended = {"status": "error", "error": f"Error: {said}"}
        script.count("failed_call")
    else:
        ended = {"status": "completed", "output": said, "title": "a", "metadata": {}}
        if dice.chance(0.1):
            ended["attachments"] = [picture()]
            script.count("image_in_result")
    ended |= {"input": state["input"], "time": time}
    script.change_part(part, part.data | {"state": ended})


def answer(script: OpencodeScript, asked: Message, calls: int = 0) -> Message:
    """Write a whole answer of one step."""
    message = begin(script, asked)
    step(script, message, calls)
    end(script, message)
    return message


def turn(script: OpencodeScript, talk: Talk, calls: int = 0) -> Message:
    """Write a prompt, an answer with calls, and the last words of the turn; return the prompt."""
    asked = prompt(script, talk)
    if calls:
        answer(script, asked, calls)
    answer(script, asked)
    return asked


# -- moves ----------------------------------------------------------------------------------------


def _plain(script: OpencodeScript) -> None:
    turn(script, script.main)


def _tools(script: OpencodeScript) -> None:
    turn(script, script.main, 1)


def _parallel(script: OpencodeScript) -> None:
    turn(script, script.main, script.dice.number(2, 4))


def _steps(script: OpencodeScript) -> None:
    """Write an answer that has all steps of its turn."""
    message = begin(script, prompt(script, script.main))
    for _ in range(script.dice.number(1, 3)):
        step(script, message, script.dice.number(1, 2))
    step(script, message)
    end(script, message)
    script.count("several_steps")


def _parts(script: OpencodeScript) -> None:
    """Write a prompt with files, with words that the program adds, and with words that no model gets."""
    more = [
        picture(),
        words(script, synthetic=True),
        words(script, ignored=True),
        {"type": "agent", "name": "general", "source": {"value": "@general", "start": 0, "end": 8}},
    ]
    asked = prompt(script, script.main, words(script), *script.dice.shuffled(more))
    answer(script, asked)
    script.count("image")


def _unseen(script: OpencodeScript) -> None:
    """Write prompts that no model gets, or that the program wrote."""
    prompt(script, script.main, words(script, ignored=True))
    asked = prompt(script, script.main, words(script, synthetic=True))
    answer(script, asked)


def _model(script: OpencodeScript) -> None:
    script.model = script.dice.pick(MODELS)
    turn(script, script.main)


def _abort(script: OpencodeScript) -> None:
    """Stop an answer anywhere."""
    message = begin(script, prompt(script, script.main))
    upto = script.dice.pick(STAGES[:-1])
    step(script, message, script.dice.number(0, 2), upto)
    for part in message.parts:
        state = part.data.get("state")
        if state is not None and state["status"] in {"pending", "running"}:
            time = {"start": script.dice.now_ms, "end": script.dice.now_ms}
            told = {"status": "error", "error": "Tool execution aborted", "time": time}
            script.change_part(part, part.data | {"state": {"input": state["input"], **told}})
    end(script, message, error={"name": "MessageAbortedError", "data": {"message": "aborted"}})
    script.count("aborted")


def _fail(script: OpencodeScript) -> None:
    """Let an answer fail, perhaps after retries."""
    message = begin(script, prompt(script, script.main))
    step(script, message, 1, script.dice.pick(STAGES))
    error = {"name": "APIError", "data": {"message": "overloaded", "isRetryable": True}}
    if script.dice.chance(0.5):
        time = {"created": script.dice.now_ms}
        script.add_part(message, {"type": "retry", "attempt": 1, "error": error, "time": time})
    end(script, message, error=error)
    script.count("failed")


def _crash(script: OpencodeScript) -> None:
    """Let the program end in the middle of an answer, and go on later."""
    message = begin(script, prompt(script, script.main))
    step(script, message, script.dice.number(1, 2), script.dice.pick(STAGES))
    turn(script, script.main)
    script.count("crashed")


def _compact(script: OpencodeScript, *, is_failed: bool = False) -> None:
    """Ask for a summary, and get one: all before is cut, apart from a tail that may be kept."""
    dice, talk = script.dice, script.main
    script.clean_up(talk)
    tails = [one for one in _visible(talk)[-dice.number(1, 9) :] if one.is_user or dice.chance(0.3)]
    tail: Json = {"tail_start_id": dice.pick(tails).id} if tails and dice.chance(0.7) else {}
    auto = dice.chance(0.5)
    part: Json = {"type": "compaction", "auto": auto}
    is_noted_later = dice.chance(0.4)
    asked = prompt(script, talk, part if is_noted_later else part | tail)
    if is_noted_later and tail:
        script.change_part(asked.parts[0], part | tail)
    message = begin(script, asked, mode="compaction", agent="compaction", summary=True)
    if is_failed:
        step(script, message, upto=dice.pick(STAGES))
        name = dice.pick(("APIError", "MessageAbortedError"))
        end(script, message, error={"name": name, "data": {"message": "no"}})
        script.count("failed_compaction")
        return
    step(script, message)
    end(script, message)
    script.count("compaction_with_tail" if tail else "compaction")
    if auto and dice.chance(0.7):
        answer(script, prompt(script, talk, words(script, synthetic=True)))
    elif dice.chance(0.5):
        turn(script, talk, 1)


def _visible(talk: Talk) -> list[Message]:
    """Return the messages that the model gets, apart from those of a compaction."""
    place = {one.id: at for at, one in enumerate(talk.messages)}
    start, hidden = 0, set[str]()
    for answer in talk.messages:
        data = answer.data
        asked = str(data.get("parentID"))
        is_done = data.get("summary") is True and "finish" in data and "error" not in data
        # What a summary speaks of may be removed.
        if is_done and asked in place:
            tail = str(talk.messages[place[asked]].parts[0].data.get("tail_start_id", asked))
            start, hidden = place.get(tail, place[asked]), hidden | {asked, answer.id}
    return [one for one in talk.messages[start:] if one.id not in hidden]


def _compact_failed(script: OpencodeScript) -> None:
    _compact(script, is_failed=True)


def _clear(script: OpencodeScript) -> None:
    """Clear outputs of older calls."""
    turn(script, script.main, 1)
    done = [
        part
        for message in script.main.messages[:-1]
        for part in message.parts
        if part.data.get("state", {}).get("status") == "completed"
    ]
    for part in script.dice.shuffled(done)[: script.dice.number(1, 3)]:
        state = part.data["state"]
        time = state["time"] | {"compacted": script.dice.now_ms}
        script.change_part(part, part.data | {"state": state | {"time": time}})
        script.count("cleared_output")


def revert(script: OpencodeScript) -> None:
    """Take back the talk from a prompt on."""
    talk = script.main
    found = [one for one in talk.messages[-9:] if one.is_user]
    if found:
        _revert_to(script, talk, messageID=script.dice.pick(found).id)


def _revert_part(script: OpencodeScript) -> None:
    """Take back the talk from a part of an answer on."""
    talk = script.main
    found = [one for one in _visible(talk)[-9:] if len(one.parts) > 1 and not one.is_user]
    if found:
        message = script.dice.pick(found)
        part = script.dice.pick(message.ordered()[1:])
        _revert_to(script, talk, messageID=message.id, partID=part.id)
        script.count("reverted_part")


def _revert_to(script: OpencodeScript, talk: Talk, **place: str) -> None:
    more = {"snapshot": script.dice.hex(40), "diff": "--- a\n+++ b\n"}
    script.change_talk(talk, revert=place | more)
    script.count("revert")


def unrevert(script: OpencodeScript) -> None:
    """Bring back what was taken back."""
    if script.main.revert is None:
        revert(script)
    script.change_talk(script.main, revert=None)
    script.count("unrevert")


def remove(script: OpencodeScript) -> None:
    """Remove one of the last messages, as the program's interface lets a client do."""
    script.clean_up(script.main)
    if len(script.main.messages) > 1:
        script.remove(script.dice.pick(script.main.messages[-1:] * 2 + script.main.messages[-3:]))
        script.count("removed_message")


def title(script: OpencodeScript) -> None:
    """Name the session."""
    script.change_talk(script.main, title=script.dice.text(20))
    script.count("title")


def _diffs(script: OpencodeScript) -> None:
    """Note the changed files at a prompt once its answer is there."""
    asked = turn(script, script.main, 1)
    diff = {"file": "a.txt", "before": "a", "after": "b", "additions": 1, "deletions": 1}
    script.change(asked, summary={"diffs": [diff]})
    if script.dice.chance(0.5):
        script.change(asked, summary={"title": script.words(), "diffs": [diff]})
    script.count("summary_of_changes")


def _subagent(script: OpencodeScript) -> None:
    """Let a call start a session of its own."""
    main = script.main
    asked = prompt(script, main)
    message = begin(script, asked)
    step(script, message, 0, "thought")
    state = {"status": "pending", "input": {}, "raw": ""}
    call = {"type": "tool", "callID": f"call_{script.dice.hex(12)}", "tool": "task"}
    part = script.add_part(message, call | {"state": state})
    child = script.open_talk(parent_id=main.id, title=f"{script.words()} (@general subagent)")
    run(script, part, metadata={"sessionId": child.id})
    turn(script, child, 1)
    finish(script, part)
    end(script, message, finish="tool-calls", tokens=script.tokens(message))
    answer(script, asked)
    script.count("subagent")


def _fork(script: OpencodeScript) -> None:
    """Copy the messages before one of the last into a session of its own, and go on there."""
    source = script.main
    last = source.messages[-5:]
    cut = script.dice.pick(last).id if last and script.dice.chance(0.6) else None
    fork = script.open_talk(
        title=f"{source.columns['title']} (fork #1)",
        fork_session_id=source.id,
        fork_message_id=cut,
    )
    ids: dict[str, str] = {}
    for message in source.messages:
        if message.id == cut:
            break
        data = dict(message.data)
        if "parentID" in data:
            data["parentID"] = ids.get(data["parentID"], data["parentID"])
        copy = script.add(fork, data, at=message.time_ms)
        ids[message.id] = copy.id
        for part in message.ordered():
            tail = part.data.get("tail_start_id")
            mapped = {} if tail is None else {"tail_start_id": ids.get(tail, tail)}
            script.add_part(copy, part.data | mapped)
    turn(script, fork)
    script.count("fork")


def _unknown(script: OpencodeScript) -> None:
    """Write parts of no known form."""
    asked = prompt(script, script.main, words(script), {"type": "hologram", "x": [1]})
    message = begin(script, asked)
    script.add_part(message, {"type": "weather", "text": "rain"})
    script.add_part(message, {"type": "snapshot", "snapshot": script.dice.hex(40)})
    step(script, message)
    end(script, message)


MOVES: Final[Mapping[str, Move]] = {
    "plain": _plain,
    "tools": _tools,
    "parallel": _parallel,
    "steps": _steps,
    "parts": _parts,
    "unseen": _unseen,
    "model": _model,
    "abort": _abort,
    "fail": _fail,
    "crash": _crash,
    "compact": _compact,
    "compact_again": _compact,
    "compact_failed": _compact_failed,
    "clear": _clear,
    "revert": revert,
    "revert_part": _revert_part,
    "unrevert": unrevert,
    "remove": remove,
    "title": title,
    "diffs": _diffs,
    "subagent": _subagent,
    "fork": _fork,
    "unknown": _unknown,
}

# A talk of plain turns, for sizes and times.
PLAIN: Final[Mapping[str, Move]] = {"plain": _plain, "tools": _tools, "parallel": _parallel}

_SIZES: Final = Sizes()


def opencode_script(
    seed: int | str,
    sizes: Sizes = _SIZES,
    *,
    moves: Mapping[str, Move] = MOVES,
    start_ms: int | None = None,
) -> OpencodeScript:
    """Return the script of a session of version 1; without a time, ids of every other seed begin anew midway."""
    if start_ms is None:
        start_ms = WRAP_MS - 60_000 if str(seed).endswith(tuple("13579")) else START_MS
    return OpencodeScript(seed, sizes, moves=moves, start_ms=start_ms)
