"""All moves of a session of opencode's version 2, by name, and the scripts that make them.

Each message is one row, which changes in its place: an answer has all its content, a shell's command
gets its output, a compaction its summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.kit.agent_files.dice import PIXEL, START_MS, Sizes
from tests.kit.agent_files.opencode import MODELS, TOOLS, Message, OpencodeScript, Talk
from tests.kit.agent_files.opencode_moves import (
    STAGES,
    Move,
    Stage,
    remove,
    revert,
    title,
    unrevert,
)
from tests.kit.agent_files.said import Json


def _add(script: OpencodeScript, talk: Talk, kind: str, **data: Any) -> Message:
    """Write a row of a kind."""
    return script.add(talk, {**data, "time": {"created": script.dice.now_ms}}, kind)


def _prompt(script: OpencodeScript, talk: Talk, **more: Any) -> Message:
    script.clean_up(talk)
    message = _add(script, talk, "user", text=script.words(), **more)
    script.change_talk(talk)
    return message


def _begin(script: OpencodeScript, talk: Talk) -> Message:
    """Write the row of an answer that is still empty."""
    provider, model = script.model
    named = {"id": model, "providerID": provider}
    return _add(script, talk, "assistant", agent="build", model=named, content=[])


def _end(script: OpencodeScript, message: Message, **more: Any) -> None:
    time = message.data["time"] | {"completed": script.later()}
    script.change(message, time=time, **more)


def _grow(script: OpencodeScript, message: Message, at: int, item: Json) -> None:
    """Put an item into the content of an answer, in the place of an earlier version if there is one."""
    content = list(message.data["content"])
    content[at : at + 1] = [item]
    script.change(message, content=content)


def _step(script: OpencodeScript, message: Message, calls: int = 0, upto: Stage = "done") -> None:
    """Write what an answer thinks, its words, and its calls with their results."""
    dice, last = script.dice, STAGES.index(upto)
    for kind, stage in (("reasoning", 1), ("text", 2)):
        is_wanted = STAGES[stage] == upto or (kind == "text" and not calls) or dice.chance(0.4)
        if last < stage or not is_wanted:
            continue
        said, at = script.words(), len(message.data["content"])
        for share in (2, 1):
            _grow(script, message, at, {"type": kind, "text": said[: len(said) // share]})
    if last >= 3 and calls:
        _call(script, message, calls, is_answered=last >= 4)
    if last >= 5:
        reason = "tool-calls" if calls else "stop"
        script.change(message, finish=reason, tokens=script.tokens(message), cost=0.25)


def _call(script: OpencodeScript, message: Message, calls: int, *, is_answered: bool) -> None:
    """Write calls of one step, which run and end in orders of chance."""
    dice, first = script.dice, len(message.data["content"])
    for at in range(first, first + calls):
        call = {"type": "tool", "id": f"call_{dice.hex(12)}", "name": dice.pick(TOOLS)}
        time = {"created": dice.now_ms}
        state: Json = {"status": "streaming", "input": '{"command":"l'}
        _grow(script, message, at, call | {"state": state, "time": time})
    places = dice.shuffled(range(first, first + calls))
    for at in places[: None if is_answered else dice.number(0, calls)]:
        call = message.data["content"][at]
        state = {"status": "running", "input": {"command": f"ls {dice.hex(4)}"}}
        _grow(script, message, at, call | {"state": state})
    for at in dice.shuffled(places) if is_answered else ():
        call = message.data["content"][at]
        time = call["time"] | {"completed": script.later()}
        ended = _ended(script, call["state"]["input"])
        _grow(script, message, at, call | {"state": ended, "time": time})
    if calls > 1:
        script.count("parallel_calls")


def _ended(script: OpencodeScript, given: Json) -> Json:
    """Return the state of a call that has ended."""
    dice, said = script.dice, script.dice.text(script.sizes.result_bytes)
    if dice.chance(0.2):
        script.count("failed_call")
        return {"status": "error", "input": given, "error": {"type": "unknown", "message": said}}
    content: list[Json] = [{"type": "text", "text": said}]
    if dice.chance(0.2):
        content.append({"type": "text", "text": dice.text(20)})
    if dice.chance(0.1):
        script.count("image_in_result")
        content.append({"type": "file"} | _picture())
    return {"status": "completed", "input": given, "content": content, "metadata": {"exit": 0}}


def _picture() -> Json:
    return {"mime": "image/png", "name": "dot.png", "uri": f"data:image/png;base64,{PIXEL}"}


def _answer(script: OpencodeScript, talk: Talk, calls: int = 0) -> Message:
    message = _begin(script, talk)
    _step(script, message, calls)
    _end(script, message)
    return message


def _turn(script: OpencodeScript, talk: Talk, calls: int = 0) -> None:
    """Write a prompt, an answer with calls, the last words of the turn, and a row for its end."""
    _prompt(script, talk)
    if calls:
        _answer(script, talk, calls)
    _answer(script, talk)
    if script.dice.chance(0.6):
        _add(script, talk, "idle", outcome="succeeded")


# -- moves ----------------------------------------------------------------------------------------


def _plain(script: OpencodeScript) -> None:
    _turn(script, script.main)


def _tools(script: OpencodeScript) -> None:
    _turn(script, script.main, 1)


def _parallel(script: OpencodeScript) -> None:
    _turn(script, script.main, script.dice.number(2, 4))


def _image(script: OpencodeScript) -> None:
    agents = [{"name": "general"}] if script.dice.chance(0.5) else []
    _prompt(script, script.main, files=[_picture()], agents=agents)
    _answer(script, script.main)
    script.count("image")


def _told(script: OpencodeScript) -> None:
    """Write rows that the program says to the model."""
    for kind in script.dice.shuffled(("synthetic", "system", "skill")):
        more = {"name": "pdf"} if kind == "skill" else {}
        _add(script, script.main, kind, text=script.words(), **more)
    _turn(script, script.main)


def _shell(script: OpencodeScript) -> None:
    """Let the user run a command."""
    script.clean_up(script.main)
    row = _add(script, script.main, "shell", command="ls -l", status="running")
    for share in (2, 1):
        said = script.dice.text(script.sizes.result_bytes)
        script.change(row, output=said[: len(said) // share])
    _end(script, row, status="exited", exit=0)
    script.count("shell")


def _switch(script: OpencodeScript) -> None:
    """Change the model, the agent and the folder."""
    script.model = script.dice.pick(MODELS)
    named = {"id": script.model[1], "providerID": script.model[0]}
    script.clean_up(script.main)
    _add(script, script.main, "model-switched", model=named)
    _add(script, script.main, "agent-switched", agent="plan")
    _add(script, script.main, "location-switched", location={"directory": "/home/ann/other"})
    _turn(script, script.main)


def _abort(script: OpencodeScript) -> None:
    """Stop an answer anywhere."""
    _prompt(script, script.main)
    message = _begin(script, script.main)
    _step(script, message, script.dice.number(0, 2), script.dice.pick(STAGES[:-1]))
    _end(script, message, error={"type": "aborted", "message": "aborted"})
    _add(script, script.main, "idle", outcome="interrupted")
    script.count("aborted")


def _fail(script: OpencodeScript) -> None:
    """Let an answer fail, perhaps after a retry."""
    _prompt(script, script.main)
    message = _begin(script, script.main)
    error = {"type": "provider.overloaded", "message": "overloaded"}
    if script.dice.chance(0.5):
        script.change(message, retry={"attempt": 1, "at": script.dice.now_ms, "error": error})
    _step(script, message, 1, script.dice.pick(STAGES))
    _end(script, message, error=error)
    _add(script, script.main, "idle", outcome="failed")
    script.count("failed")


def _crash(script: OpencodeScript) -> None:
    """Let the program end in the middle of an answer, and go on later."""
    _prompt(script, script.main)
    message = _begin(script, script.main)
    _step(script, message, script.dice.number(1, 2), script.dice.pick(STAGES))
    _turn(script, script.main)
    script.count("crashed")


def _compacting(script: OpencodeScript) -> Message:
    script.clean_up(script.main)
    reason = script.dice.pick(("auto", "manual"))
    row = _add(script, script.main, "compaction", status="running", reason=reason)
    said = script.words()
    for share in (2, 1):
        script.change(row, summary=said[: len(said) // share])
    return row


def _compact(script: OpencodeScript) -> None:
    """Cut all before a summary and a recent end of the talk."""
    row = _compacting(script)
    recent = f"User: {script.words()}" if script.dice.chance(0.7) else ""
    tokens = {"tokens": script.tokens(row), "cost": 0.25} if script.dice.chance(0.8) else {}
    _end(script, row, status="completed", recent=recent, **tokens)
    script.count("compaction")
    if script.dice.chance(0.5):
        _turn(script, script.main, 1)


def _compact_failed(script: OpencodeScript) -> None:
    error = {"type": "unknown", "message": "overloaded"}
    _end(script, _compacting(script), status="failed", error=error)
    script.count("failed_compaction")


def _compact_by_provider(script: OpencodeScript) -> None:
    """Cut all before something that only its provider can read."""
    row = _compacting(script)
    context = {"type": "openai", "items": [{"encrypted_content": script.dice.hex(40)}]}
    tokens = script.tokens(row)
    _end(script, row, status="completed", providerContext=context, tokens=tokens, recent="")
    script.count("provider_compaction")


def _subagent(script: OpencodeScript) -> None:
    """Let a call start a session of its own."""
    _prompt(script, script.main)
    message = _begin(script, script.main)
    call = {"type": "tool", "id": f"call_{script.dice.hex(12)}", "name": "task"}
    state: Json = {"status": "running", "input": {"prompt": "look"}}
    _grow(script, message, 0, call | {"state": state})
    name = f"{script.words()} (@general subagent)"
    child = script.open_talk(parent_id=script.main.id, title=name)
    _turn(script, child, 1)
    _grow(script, message, 0, call | {"state": _ended(script, state["input"])})
    _end(script, message, finish="tool-calls", tokens=script.tokens(message))
    _answer(script, script.main)
    script.count("subagent")


def _unknown(script: OpencodeScript) -> None:
    """Write rows and content of no known form."""
    _add(script, script.main, "hologram", text="x")
    _prompt(script, script.main)
    message = _begin(script, script.main)
    _grow(script, message, 0, {"type": "weather", "text": "rain"})
    _step(script, message)
    _end(script, message)


MOVES: Final[Mapping[str, Move]] = {
    "plain": _plain,
    "tools": _tools,
    "parallel": _parallel,
    "image": _image,
    "told": _told,
    "shell": _shell,
    "switch": _switch,
    "abort": _abort,
    "fail": _fail,
    "crash": _crash,
    "compact": _compact,
    "compact_failed": _compact_failed,
    "compact_by_provider": _compact_by_provider,
    "revert": revert,
    "unrevert": unrevert,
    "remove": remove,
    "title": title,
    "subagent": _subagent,
    "unknown": _unknown,
}

# A talk of plain turns, for sizes and times.
PLAIN: Final[Mapping[str, Move]] = {"plain": _plain, "tools": _tools, "parallel": _parallel}

_SIZES: Final = Sizes()


def opencode_rows_script(
    seed: int | str,
    sizes: Sizes = _SIZES,
    *,
    moves: Mapping[str, Move] = MOVES,
    start_ms: int = START_MS,
) -> OpencodeScript:
    """Return the script of a session of version 2."""
    return OpencodeScript(seed, sizes, moves=moves, is_newer=True, start_ms=start_ms)
