"""Second reader of Codex' rollouts, written from the facts on the format: clear and slow.

Law: this module knows nothing of sessiond, and holds the whole session in memory.

Choices where the facts are silent: a reply is a run of the model's items without another item between
(as sessiond's design has it), and no run reaches over a compaction; outputs that follow a reply stand in
the order of its calls; a turn without a task_started event begins with a turn_context of another turn id;
the injected items of a dropped turn are dropped, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from tests.kit.agent_files.said import (
    Json,
    Reading,
    Role,
    Said,
    added,
    as_list,
    as_number,
    as_object,
    as_text,
    parsed,
    whole_lines,
)

USAGE_NAMES: Final = {
    "input": "input_tokens",
    "cached": "cached_input_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_output_tokens",
    "total": "total_tokens",
}
OUTPUTS: Final = ("function_call_output", "custom_tool_call_output", "tool_search_output")
MARKERS: Final = ("compaction", "compaction_summary", "context_compaction")
NO_ITEMS: Final = ("ghost_snapshot", "agent_message", "additional_tools")

Find = Callable[[str], "bytes | None"]


@dataclass(frozen=True)
class Entry:
    """A line of the log: its id, its type and its payload."""

    entry_id: str
    kind: str
    payload: Json
    own: bool = True

    @property
    def is_item(self) -> bool:
        """Return whether the model sees the line."""
        return self.kind == "response_item" and self.payload.get("type") not in NO_ITEMS

    @property
    def event(self) -> str | None:
        """Return the type of the event that the line tells."""
        return as_text(self.payload.get("type")) if self.kind == "event_msg" else None


@dataclass
class Turn:
    """Lines from the start of a turn to the start of the next."""

    turn_id: str | None
    entries: list[Entry] = field(default_factory=list[Entry])

    @property
    def has_prompt(self) -> bool:
        """Return whether a user said something in the turn."""
        return any(_prompt_said(one) is not None for one in self.entries)


@dataclass(frozen=True)
class Item:
    """An item of the context; items of two epochs have a compaction between them."""

    item_id: str
    payload: Json
    epoch: int
    summary: str | None = None


def read_codex(
    lines: Sequence[bytes], find: Find | None = None, index: Sequence[bytes] = ()
) -> Reading:
    """Return what the whole lines of a rollout say.

    `find` returns the plain bytes of the rollout with an id, `index` has the lines of session_index.jsonl.
    """
    missing: set[str] = set()
    log, bad = _log(lines, find, missing)
    meta = _meta(log)
    turns, alive, tree = _turns(log)
    context = _messages(_items(alive))
    contexts = [one.payload for one in log if one.kind == "turn_context"]
    prompts = [found for turn in turns for found in _prompts(turn)]
    said = [text for text in map(_prompt_said, log) if text is not None]
    usage, final, last = _usage(log, meta)
    named = _name(index, as_text(meta.get("id")))
    last_context = contexts[-1] if contexts else {}
    return Reading(
        leaf=log[-1].entry_id if log else None,
        title=named or next(iter(said), None),
        stated_title=named,
        context=tuple(context),
        usage=usage,
        tree=tree,
        model=as_text(last_context.get("model")),
        cwd=as_text(last_context.get("cwd")) or as_text(meta.get("cwd")),
        prompts=tuple(prompts),
        context_tokens=last,
        bad=bad,
        missing=frozenset(missing),
        more_usage={"final": final},
    )


# The log, over files.


def _log(lines: Sequence[bytes], find: Find | None, missing: set[str]) -> tuple[list[Entry], int]:
    """Return the lines of a rollout behind those of its base, and the number of bad lines in the rollout."""
    own: list[Entry] = []
    bad = 0
    for number, line in enumerate(parsed(lines), 1):
        if line is None:
            bad += 1
            continue
        payload = as_object(line.get("payload"))
        own.append(Entry(f"line-{number}", str(line.get("type")), payload))
    base = as_object(_meta(own).get("history_base"))
    if not base:
        return own, bad
    rollout_id = str(base["thread_id"])
    data = find(rollout_id) if find is not None else None
    if data is None:
        missing.add(rollout_id)
        return own, bad
    before, _ = _log(_prefix(data, base), find, missing)
    return [
        Entry(_in_base(one.entry_id, rollout_id), one.kind, one.payload, own=False)
        for one in before
        if one.kind != "session_meta"
    ] + own, bad


def _meta(log: Sequence[Entry]) -> Json:
    """Return the identity of a rollout: its own first session_meta."""
    found = [one.payload for one in log if one.own and one.kind == "session_meta"]
    return found[0] if found else {}


def _prefix(data: bytes, base: Json) -> list[bytes]:
    """Return the lines of a base file that belong to the child, by bytes, else by ordinals."""
    offset = as_number(base.get("end_byte_offset"))
    if data[:offset].endswith(b"\n") and offset <= len(data):
        return whole_lines(data[:offset])[0]
    lines, _ = whole_lines(data)
    end = as_number(base.get("end_ordinal_exclusive"))
    return [
        line
        for line, one in zip(lines, parsed(lines), strict=True)
        if one is not None and as_number(one.get("ordinal")) < end
    ]


def _in_base(entry_id: str, rollout_id: str) -> str:
    return f"{rollout_id}/{entry_id}" if entry_id.startswith("line-") else entry_id


# Turns and rollbacks.


def _turns(log: Sequence[Entry]) -> tuple[list[Turn], list[Turn], dict[str, str | None]]:
    """Return all turns, the turns that no rollback dropped, and the tree that this makes."""
    every = [Turn(None)]
    alive = list(every)
    tree: dict[str, str | None] = {}
    for entry in log:
        turn_id = as_text(entry.payload.get("turn_id"))
        starts = entry.event in ("task_started", "turn_started")
        told = entry.kind == "turn_context" and turn_id != alive[-1].turn_id
        if starts or told:
            every.append(Turn(turn_id))
            alive.append(every[-1])
        if entry.event == "thread_rolled_back":
            _roll_back(alive, as_number(entry.payload.get("num_turns")))
            # Lines that follow before the next turn belong to no dropped turn.
            every.append(Turn(None))
            alive.append(every[-1])
        if entry.is_item or entry.kind == "compacted":
            before = (one.entry_id for turn in alive[::-1] for one in turn.entries[::-1])
            tree[entry.entry_id] = next((one for one in before if one in tree), None)
        alive[-1].entries.append(entry)
    return every, alive, tree


def _roll_back(alive: list[Turn], count: int) -> None:
    """Drop the last user turns, and all that was between and behind them."""
    while count and any(turn.has_prompt for turn in alive):
        count -= alive.pop().has_prompt
    if not alive:
        alive.append(Turn(None))


def _prompt_said(entry: Entry) -> str | None:
    """Return the words of a user, if the line is the event that tells them."""
    if entry.event == "user_message":
        return as_text(entry.payload.get("message"))
    item = as_object(entry.payload.get("item"))
    if entry.event == "item_completed" and item.get("type") == "UserMessage":
        return "".join(str(as_object(one).get("text", "")) for one in as_list(item.get("content")))
    return None


def _prompts(turn: Turn) -> list[str]:
    """Return the ids of the items of a turn that an event tells of, too."""
    found: list[str] = []
    for said in map(_prompt_said, turn.entries):
        for entry in turn.entries:
            same = entry.is_item and entry.payload.get("role") == "user"
            if same and entry.entry_id not in found and "".join(_texts(entry.payload)) == said:
                found.append(entry.entry_id)
                break
    return found


# The context.


def _items(alive: Sequence[Turn]) -> list[Item]:
    """Return the items of the context: those of the last compaction, and all that came later."""
    items: list[Item] = []
    epoch = 0
    for entry in (one for turn in alive for one in turn.entries):
        if entry.kind == "compacted":
            epoch += 1
            base = entry.payload.get("replacement_history")
            if isinstance(base, list):
                items = [
                    Item(f"{entry.entry_id}/{place}", as_object(one), epoch)
                    for place, one in enumerate(as_list(base))
                ]
            else:
                items = [one for one in items if one.payload.get("role") == "user"]
                said = str(entry.payload.get("message", ""))
                items.append(Item(entry.entry_id, {}, epoch, said))
            epoch += 1
        elif entry.is_item:
            items.append(Item(entry.entry_id, entry.payload, epoch))
    return items


def _messages(items: Sequence[Item]) -> list[Said]:
    """Return the messages of the context: a run of the model's items is one reply."""
    found: list[Said] = []
    run: list[Item] = []
    outputs: list[Said] = []

    def close() -> None:
        if run:
            found.append(_reply(run))
            run.clear()

    def close_outputs() -> None:
        asked = found[-1].calls if found else ()
        found.extend(
            sorted(
                outputs,
                key=lambda one: asked.index(one.calls[0]) if one.calls[0] in asked else len(asked),
            )
        )
        outputs.clear()

    for item in items:
        kind = item.payload.get("type")
        if run and run[-1].epoch != item.epoch:
            close()
        if kind in OUTPUTS:
            close()
            outputs.append(_output(item))
            continue
        close_outputs()
        role = item.payload.get("role")
        if item.summary is not None:
            close()
            found.append(Said("summary", (item.item_id,), (item.summary,)))
        elif kind in MARKERS:
            close()
            found.append(Said("marker", (item.item_id,)))
        elif kind == "message" and role != "assistant":
            close()
            found.append(_message(item))
        else:
            run.append(item)
    close()
    close_outputs()
    return found


def _texts(payload: Json) -> list[str]:
    return [str(as_object(one)["text"]) for one in as_list(payload.get("content")) if "text" in one]


def _message(item: Item) -> Said:
    """Return a message that is not the model's."""
    role = item.payload.get("role")
    found: Role = "developer" if role == "developer" else "system" if role == "system" else "user"
    content = [as_object(one) for one in as_list(item.payload.get("content"))]
    images = sum(one.get("type") == "input_image" for one in content)
    return Said(found, (item.item_id,), tuple(_texts(item.payload)), images=images)


def _reply(run: Sequence[Item]) -> Said:
    """Return one reply from all its items."""
    texts: list[str] = []
    calls: list[str] = []
    thinking: list[str] = []
    for item in run:
        if item.payload.get("type") == "message":
            texts += _texts(item.payload)
        elif item.payload.get("type") == "reasoning":
            thinking += [
                str(as_object(one).get("text")) for one in as_list(item.payload.get("summary"))
            ]
        elif as_text(item.payload.get("call_id")):
            calls.append(item.payload["call_id"])
    ids = tuple(one.item_id for one in run)
    return Said("assistant", ids, tuple(texts), tuple(calls), tuple(thinking))


def _output(item: Item) -> Said:
    """Return the output of one call; outputs have three shapes."""
    output: Any = item.payload.get("output")
    failed = False
    if isinstance(output, dict):
        failed = as_object(output).get("success") is False
        output = as_object(output).get("content")
    parts = [as_object(one) for one in as_list(output)]
    texts = (
        [output]
        if isinstance(output, str)
        else [str(one["text"]) for one in parts if "text" in one]
    )
    images = sum(one.get("type") == "input_image" for one in parts)
    asked = (str(item.payload.get("call_id")),)
    return Said("tool", (item.item_id,), tuple(texts), asked, images=images, failed=failed)


# Sums and titles.


def _usage(log: Sequence[Entry], meta: Json) -> tuple[dict[str, int], dict[str, int], int | None]:
    """Return the tokens of this rollout, the last total, and the size of the context.

    An event with an unmoved total tells nothing new. A copied turn, one that is older than the fork, was
    paid for by the parent.
    """
    sums = dict.fromkeys(USAGE_NAMES, 0)
    before: Json = {}
    size: int | None = None
    forked = meta.get("forked_from_id") is not None
    turn_id: str | None = None
    for entry in log:
        turn_id = as_text(entry.payload.get("turn_id")) or turn_id
        info = as_object(entry.payload.get("info"))
        if entry.event != "token_count" or not info:
            continue
        total, last = as_object(info["total_token_usage"]), as_object(info["last_token_usage"])
        size = as_number(last.get("total_tokens"))
        copied = forked and _time_of(turn_id) < _time_of(as_text(meta.get("id")))
        if total != before and entry.own and not copied:
            added(sums, {short: as_number(last.get(name)) for short, name in USAGE_NAMES.items()})
        before = total
    final = {short: as_number(before.get(name)) for short, name in USAGE_NAMES.items()}
    return sums, final, size


def _time_of(uuid: str | None) -> float:
    """Return the milliseconds that a UUID of version 7 holds, and no end of time for any other id."""
    try:
        found = UUID(uuid or "")
    except ValueError:
        return float("inf")
    return found.int >> 80


def _name(index: Sequence[bytes], thread_id: str | None) -> str | None:
    """Return the newest name of a thread."""
    found: str | None = None
    for line in index:
        one = as_object(json.loads(line))
        if one.get("id") == thread_id:
            found = as_text(one.get("thread_name"))
    return found
