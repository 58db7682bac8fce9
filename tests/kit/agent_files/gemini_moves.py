"""All moves of a talk with Gemini CLI, by name, and the scripts that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.kit.agent_files.dice import START_MS, Sizes
from tests.kit.agent_files.gemini import Chat, GeminiScript, picture
from tests.kit.agent_files.said import Json

Move = Callable[[GeminiScript], None]


def _turn(script: GeminiScript, calls: int = 0, *, pending: bool = False) -> None:
    script.prompt()
    if calls:
        script.answer(calls, pending=pending)
    script.answer()


def _plain(script: GeminiScript) -> None:
    _turn(script)


def _tools(script: GeminiScript) -> None:
    _turn(script, 1)


def _parallel(script: GeminiScript) -> None:
    _turn(script, script.dice.number(2, 4))
    script.count("parallel_calls")


def _pending(script: GeminiScript) -> None:
    """Write a call that never had a result."""
    _turn(script, 1, pending=True)
    script.count("call_without_result")


def _image(script: GeminiScript) -> None:
    script.say("user", [{"text": script.words()}, picture()], displayContent="one image")
    script.answer()
    script.count("image")


def _rewind(script: GeminiScript) -> None:
    place = script.place_of_prompt()
    if place is not None:
        script.rewind(place, script.live[place]["id"])
        script.count("rewind")
    if script.dice.chance(0.7):
        _turn(script)


def _rewind_to_unknown(script: GeminiScript) -> None:
    script.rewind(0, script.dice.uuid())
    script.count("rewind_to_unknown")
    _turn(script)


def _compress(script: GeminiScript) -> None:
    """Replace the list with a summary, an answer to it, and the last messages."""
    dice = script.dice
    now = dice.tick()
    said = f"<state_snapshot>{script.words()}</state_snapshot>"
    thanks = "Got it. Thanks for the additional context!"
    first: Json = {"id": dice.uuid(), "timestamp": now, "type": "user", "content": [{"text": said}]}
    second: Json = {
        "id": dice.uuid(),
        "timestamp": now,
        "type": "gemini",
        "content": [{"text": thanks}],
    }
    kept = script.live[-dice.number(1, 4) :] if dice.chance(0.5) else []
    if kept:
        script.count("compression_keeps_messages")
    script.replace([first, second, *kept])
    script.count("compression")
    _turn(script, 1)


def _mask(script: GeminiScript) -> None:
    """Replace the list with one in which the oldest results are gone."""
    _turn(script, 1)
    masked = list(script.live)
    place = next(place for place, one in enumerate(masked) if one.get("toolCalls"))
    masked[place] = masked[place] | {"toolCalls": [_cut(one) for one in masked[place]["toolCalls"]]}
    script.replace(masked)
    script.count("masked")


def _cut(call: Json) -> Json:
    """Return a call with its result cut, if there is one."""
    if call["result"] is None:
        return call
    response = {"id": call["id"], "name": call["name"], "response": {"output": "[cut]"}}
    return call | {"result": [{"functionResponse": response}]}


def _failed_turn(script: GeminiScript) -> None:
    """Take a failed turn back by a shorter list."""
    before = list(script.live)
    script.prompt()
    script.say("error", "[API Error: 500]", seen=False)
    script.replace(before)
    script.count("failed_turn_taken_back")


def _notices(script: GeminiScript) -> None:
    for kind in ("info", "warning", "error"):
        script.say(kind, script.words(), seen=False)
        script.count(kind)


def _commands(script: GeminiScript) -> None:
    """Write user messages that the model does not see."""
    for words in ("/stats", "?help", "<session_context>now</session_context>",
                  "<hook_context>x</hook_context>", ""):  # fmt: skip
        script.say("user", [{"text": words}], seen=False)
    script.say("user", "/plain text", seen=False)
    script.count("unseen_user")


def _again_in_the_middle(script: GeminiScript) -> None:
    """Write an older reply again, with other words."""
    _turn(script)
    _turn(script)
    older = [one for one in script.live[-4:-1] if one["type"] == "gemini"]
    script.put_message(script.dice.pick(older) | {"content": f"{script.words()} (again)"})
    script.count("older_written_again")


def _title(script: GeminiScript) -> None:
    script.patch(summary=script.dice.text(20))
    script.count("title")


def _patches(script: GeminiScript) -> None:
    script.patch(directories=["/home/ann/notes", "/home/ann/more"])
    script.patch(memoryScratchpad={"notes": script.words()})
    script.count("patches")


def _unknown(script: GeminiScript) -> None:
    script.put({"$merge": {"x": 1}})
    script.put({"weather": [None, 1]})
    script.count("unknown")


MOVES: Final[Mapping[str, Move]] = {
    "plain": _plain,
    "tools": _tools,
    "parallel": _parallel,
    "pending": _pending,
    "image": _image,
    "rewind": _rewind,
    "rewind_to_unknown": _rewind_to_unknown,
    "compress": _compress,
    "mask": _mask,
    "failed_turn": _failed_turn,
    "notices": _notices,
    "commands": _commands,
    "again": _again_in_the_middle,
    "title": _title,
    "patches": _patches,
    "unknown": _unknown,
}

# A talk of plain turns, for sizes and times.
PLAIN: Final[Mapping[str, Move]] = {"plain": _plain, "tools": _tools, "parallel": _parallel}

_SIZES: Final = Sizes()


def gemini_script(
    seed: int | str,
    sizes: Sizes = _SIZES,
    *,
    moves: Mapping[str, Move] = MOVES,
    cwd: str = "/home/ann/notes",
    start_ms: int = START_MS,
) -> GeminiScript:
    """Return the script of a chat; `moves` tells what happens in the talk."""
    return GeminiScript(seed, sizes, moves=moves, chat=Chat(cwd), start_ms=start_ms)


def gemini_subagent(seed: int | str, parent: GeminiScript, sizes: Sizes) -> GeminiScript:
    """Return the script of a subagent's chat, which is in a folder named after its parent."""
    return GeminiScript(
        f"{seed} subagent",
        sizes,
        moves=PLAIN,
        chat=Chat(parent.chat.cwd, "subagent"),
        start_ms=parent.started_ms,
    )
