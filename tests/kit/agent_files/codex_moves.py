"""All moves of a talk with Codex, by name, and the scripts that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.kit.agent_files import codex_lines as shapes
from tests.kit.agent_files.codex import CodexScript, Cut, Thread, count_tokens
from tests.kit.agent_files.dice import START_MS, Dice, Sizes
from tests.kit.agent_files.said import Json, Role, steps_to

Move = Callable[[CodexScript], None]


# Parts of a turn.


def _start(script: CodexScript, *, user: bool = True) -> None:
    """Begin a turn: who works on what, and what the program tells the model unasked."""
    if user:
        script.turns.append(script.talk)
    script.turn_id = script.dice.uuid7()
    script.event("task_started", turn_id=script.turn_id, model_context_window=shapes.WINDOW)
    if user and script.talk is None:
        said = f"<environment_context>\n  <cwd>{script.thread.cwd}</cwd>\n</environment_context>"
        script.step("developer", script.item(shapes.message("developer", "Be brief.")))
        script.step("user", script.item(shapes.message("user", said)))
        script.count("injected")
    script.put("turn_context", shapes.context(script.turn_id, script.thread.cwd, script.model))


def _prompt(script: CodexScript, *, image: bool = False) -> None:
    words = script.words()
    script.recent_words.append(words)
    number = script.item(shapes.message("user", words, image=image))
    script.step("user", number)
    script.prompts.append(number)
    script.shown(
        {"type": "user_message", "message": words, "images": []},
        {
            "type": "UserMessage",
            "id": f"u-{script.turn_id}",
            "content": [{"type": "text", "text": words}],
        },
    )


def _ask(script: CodexScript, calls: int) -> None:
    """Write a reply with calls, and then their outputs in an order of chance."""
    dice = script.dice
    numbers: list[str] = []
    if dice.chance(0.6):
        thought = script.words()
        numbers.append(script.item(shapes.reasoning(dice, thought)))
        script.shown(
            {"type": "agent_reasoning", "text": thought},
            {"type": "Reasoning", "id": f"r-{numbers[0]}", "summary_text": [thought]},
        )
        script.count("reasoning")
    if dice.chance(0.4):
        numbers.append(_say(script, "commentary"))
    asked: list[tuple[str, str]] = []
    for _ in range(calls):
        item, kind = shapes.call(dice, script.words())
        numbers.append(script.item(item))
        asked.append((item["call_id"], kind))
        script.count(item["type"])
    if dice.chance(0.1):
        search = {"type": "search", "query": script.words()}
        item = {"type": "web_search_call", "status": "completed", "action": search}
        numbers.append(script.item(item))
        script.count("web_search_call")
    script.step("assistant", *numbers)
    count_tokens(script, again=dice.chance(0.3))
    results = {
        call_id: script.item(
            shapes.output(dice, kind, call_id, dice.text(script.sizes.result_bytes))
        )
        for call_id, kind in dice.shuffled(asked)
    }
    for call_id, _ in asked:
        script.step("tool", results[call_id])
    if calls > 1:
        script.count("parallel_calls")


def _say(script: CodexScript, phase: str) -> str:
    """Write words of the model, as event and as item; return the item's id."""
    words = script.words()
    script.shown(
        {"type": "agent_message", "message": words, "phase": phase},
        {
            "type": "AgentMessage",
            "id": f"a-{script.dice.hex(6)}",
            "content": [{"type": "Text", "text": words}],
            "phase": phase,
        },
    )
    return script.item(shapes.message("assistant", words))


def _finish(script: CodexScript, *, again: bool = False, reset: bool = False) -> None:
    """Write the last words of a turn and what they cost."""
    numbers: list[str] = []
    if script.dice.chance(0.3):
        numbers.append(script.item(shapes.reasoning(script.dice, script.words())))
    numbers.append(_say(script, "final_answer"))
    script.step("assistant", *numbers)
    count_tokens(script, again=again, reset=reset)
    script.event("task_complete", turn_id=script.turn_id, last_agent_message="")


def _turn(script: CodexScript, calls: int = 0) -> None:
    _start(script)
    _prompt(script)
    if calls:
        _ask(script, calls)
    _finish(script, again=script.dice.chance(0.2))


# Moves.


def _plain(script: CodexScript) -> None:
    _turn(script)


def _tools(script: CodexScript) -> None:
    _turn(script, 1)


def _parallel(script: CodexScript) -> None:
    _turn(script, script.dice.number(2, 4))


def _steps(script: CodexScript) -> None:
    """Write a turn of several replies."""
    _start(script)
    _prompt(script)
    for _ in range(3):
        _ask(script, 1)
    _finish(script)


def _image(script: CodexScript) -> None:
    _start(script)
    _prompt(script, image=True)
    script.count("image")
    _finish(script)


def _model(script: CodexScript) -> None:
    others = [one for one in shapes.MODELS if one != script.model]
    script.model = script.dice.pick(others)
    script.count("model_change")
    _turn(script)


def _tokens(script: CodexScript) -> None:
    _start(script)
    _prompt(script)
    _finish(script, again=True, reset=script.dice.chance(0.3))


def _rollback(script: CodexScript) -> None:
    """Take back the last turns; their lines stay."""
    turns = script.dice.number(1, 3)
    if turns >= len(script.turns):
        _turn(script)
        turns = 1
    for _ in range(turns):
        script.talk = script.turns.pop()
    script.event("thread_rolled_back", num_turns=turns)
    script.count("rollback")
    if turns > 1:
        script.count("rollback_of_several")


def _compact(script: CodexScript, *, old: bool = False) -> None:
    """Write a compaction: the whole new context, or (old) the summary alone."""
    summary = f"Summary: {script.words()}"
    if old:
        users = [step for step in steps_to(script.talk) if step.role == "user"]
        number = script.put("compacted", {"message": summary})
        script.talk = None
        for step in users:
            script.step("user", *step.ids)
        script.step("summary", number)
        script.count("compacted_old")
        return
    items: list[Json] = [shapes.message("user", "<environment_context>later</environment_context>")]
    items += [shapes.message("user", words) for words in script.recent_words]
    roles: list[Role] = ["user"] * len(items)
    if script.dice.chance(0.3):
        items.append(shapes.message("assistant", script.words()))
        roles.append("assistant")
        script.count("compacted_with_reply")
    if script.dice.chance(0.5):
        items.append({"type": "compaction", "encrypted_content": script.dice.hex(20)})
        roles.append("marker")
    else:
        items.append(shapes.message("user", summary))
        roles.append("user")
    number = script.put(
        "compacted",
        {
            "message": "",
            "replacement_history": items,
            "window_number": script.features["compacted"],
        },
    )
    script.talk = None
    for place, role in enumerate(roles):
        script.step(role, f"{number}/{place}")
    script.count("compacted")


def _compact_by_hand(script: CodexScript) -> None:
    """Compact in a turn of its own, which has no prompt."""
    _start(script, user=False)
    _compact(script)
    if not script.thread.paginated:
        script.event("context_compacted")
    script.event("task_complete", turn_id=script.turn_id, last_agent_message=None)
    _turn(script)


def _compact_within(script: CodexScript) -> None:
    """Compact in the middle of a turn; a rollback of the turn takes the compaction back."""
    _start(script)
    _prompt(script)
    _ask(script, 1)
    _compact(script)
    _finish(script)
    if script.dice.chance(0.5):
        script.talk = script.turns.pop()
        script.event("thread_rolled_back", num_turns=1)
        script.count("rollback_of_compaction")


def _compact_old(script: CodexScript) -> None:
    _turn(script)
    _compact(script, old=True)
    _turn(script)


def _compact_item(script: CodexScript) -> None:
    """Write a compaction as an item, whose words nobody can read."""
    _start(script)
    _prompt(script)
    item: Json = {"type": "context_compaction", "encrypted_content": script.dice.hex(20)}
    script.step("marker", script.item(item))
    script.count("context_compaction")
    _finish(script)


def _bookkeeping(script: CodexScript) -> None:
    for kind, payload in shapes.bookkeeping(script.dice):
        script.put(kind, payload)
    script.count("bookkeeping")


def _unknown(script: CodexScript) -> None:
    for kind, payload in shapes.unknown(script.dice):
        script.put(kind, payload)
    script.count("unknown")


def _aborted(script: CodexScript) -> None:
    """Write a turn that the user ended before its call had an output."""
    _start(script)
    _prompt(script)
    item, _ = shapes.call(script.dice, "x")
    script.step("assistant", script.item(item))
    script.step("user", script.item(shapes.message("user", "<turn_aborted>by hand</turn_aborted>")))
    script.event("turn_aborted", turn_id=script.turn_id, reason="interrupted")
    script.count("aborted")


MOVES: Final[Mapping[str, Move]] = {
    "plain": _plain,
    "tools": _tools,
    "parallel": _parallel,
    "steps": _steps,
    "image": _image,
    "model": _model,
    "tokens": _tokens,
    "rollback": _rollback,
    "compact": _compact_by_hand,
    "compact_within": _compact_within,
    "compact_old": _compact_old,
    "compact_item": _compact_item,
    "bookkeeping": _bookkeeping,
    "unknown": _unknown,
    "aborted": _aborted,
}

# A talk of plain turns, for sizes and times.
PLAIN: Final[Mapping[str, Move]] = {"plain": _plain, "tools": _tools, "parallel": _parallel}

_SIZES: Final = Sizes()


def codex_script(
    seed: int | str,
    sizes: Sizes = _SIZES,
    *,
    moves: Mapping[str, Move] = MOVES,
    paginated: bool = False,
    start_ms: int = START_MS,
) -> CodexScript:
    """Return the script of a rollout that has no parent."""
    thread = Thread(Dice(f"thread {seed}", start_ms).uuid7(), paginated=paginated)
    return CodexScript(seed, sizes, moves=moves, thread=thread, start_ms=start_ms)


def codex_child(
    seed: int | str, cut: Cut, sizes: Sizes = _SIZES, *, segment: bool, start_ms: int
) -> CodexScript:
    """Return the script of a paginated fork, or of another segment of the same thread, that begins at a cut."""
    own = Dice(f"child {seed}", start_ms).uuid7()
    thread = Thread(
        cut.thread_id if segment else own,
        own if segment else None,
        paginated=True,
        base=cut,
        forked_from=None if segment else cut.thread_id,
    )
    return CodexScript(seed, sizes, moves=MOVES, thread=thread, start_ms=start_ms)


def codex_copy(
    seed: int | str,
    parent: CodexScript,
    lines: Sequence[bytes],
    sizes: Sizes = _SIZES,
) -> CodexScript:
    """Return the script of a legacy fork, whose file begins with all lines of a finished parent."""
    start_ms = parent.dice.now_ms + 60_000
    thread = Thread(Dice(f"copy {seed}", start_ms).uuid7(), forked_from=parent.thread.thread_id)
    child = CodexScript(seed, sizes, moves=MOVES, thread=thread, start_ms=start_ms)
    child.copy(lines, parent.talk)
    return child


__all__ = ["MOVES", "PLAIN", "Move", "codex_child", "codex_copy", "codex_script"]
