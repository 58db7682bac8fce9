"""Rollouts of Codex: a list of items, as native entries.

What the model sees are the items of type `response_item`. Events repeat the words for people; here they
say where a turn begins, what was rolled back, and what a request cost. A rollback leaves the dropped
turns in the file: the next turn stands beside them here.

A file may begin with lines of another file (a fork, or a later segment): these come to `take` behind the
first line of the session's own file, which says whose session the lines are.

    {"timestamp":"…","type":"response_item",
     "payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw, structs

from sessiond.dialects.agents.codex_compactions import Prompts, compaction_of
from sessiond.dialects.agents.codex_items import (
    ITEMS,
    is_injected,
    message_of,
    usage_of,
)
from sessiond.dialects.agents.codex_turns import Turn, Turns, is_older
from sessiond.dialects.agents.own_entries import Times, record_of, usage_record
from sessiond.dialects.agents.reading import Origin, Reading
from sessiond.dialects.agents.replies import named, one_message
from sessiond.dialects.agents.source_line import SourceLine, decoded, member
from sessiond.dialects.lenient_json import fields, text
from sessiond.model.entries import (
    CustomMessage,
    Entry,
    Leaf,
    Message,
    ModelChange,
    Opaque,
)
from sessiond.model.formats import AgentFormatName
from sessiond.model.parsed_message import ParsedMessage

AGENT: Final[AgentFormatName] = "codex"
INJECTED: Final = "codex.injected"
"""Type of a `custom_message` that Codex itself put in front of the user's words."""

_TYPES: Final = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
)
_FACTS: Final = ("cli_version", "git", "originator", "forked_from_id", "history_base")


def is_codex(first: list[SourceLine]) -> bool:
    """Return whether a file that begins with these lines is a rollout of Codex."""
    return any(line.word("type") in _TYPES and "payload" in line.members for line in first) or (
        len(first) > 1
        and first[0].word("id") is not None
        and "instructions" in first[0].members
        and first[1].word("type") in ITEMS
    )


class CodexReading(Reading):
    """The reading of one rollout; `Reading` describes the methods.

    An entry's id is `line-` and the number of its line, so an entry is a number here; 0 is none.
    """

    def __init__(self) -> None:
        self._origin = Origin(AGENT)
        self._number = 0
        self._times = Times()
        self._leaf = 0
        # The first line of the answer whose items are being read.
        self._answer = 0
        self._tools: dict[str, str] = {}
        self._turns = Turns()
        self._turn_id: str | None = None
        self._model: str | None = None
        self._provider: str | None = None
        self._total: int | None = None
        self._prompts = Prompts()
        self._has_bare_items = False

    @property
    def origin(self) -> Origin:
        """Facts that the lines so far state."""
        return self._origin

    def take(self, line: SourceLine) -> Entry | Opaque:
        """Return the entry of the next record."""
        self._number = line.number
        time = self._times.take(line.time())
        kind, payload = line.word("type") or "", member(line.members, "payload")
        if kind in ITEMS and not payload:
            # The oldest rollouts have the items themselves as lines.
            self._has_bare_items = True
            kind, payload = "response_item", line.members
        above = self._leaf
        entry = self._entry(kind, payload, line)
        if entry is None:
            entry = record_of(AGENT, _word(kind, payload), line.raw)
        elif not isinstance(entry, Leaf | Opaque):
            self._leaf = self._number
        entry.id, entry.parent_id = _id(self._number), _id(above) if above else None
        entry.timestamp = time
        return entry

    def is_own(self, line: SourceLine) -> bool:
        """Return whether an object is an item of a rollout; no item names its session."""
        kind = line.word("type")
        if kind in ITEMS:
            return self._has_bare_items
        return kind in _TYPES and bool(member(line.members, "payload"))

    def _entry(self, kind: str, payload: dict[str, Raw], line: SourceLine) -> Entry | Opaque | None:
        """Return the entry of a line; None for a line that only is a record."""
        match kind:
            case "session_meta":
                self._begin(payload)
            case "" if line.word("id"):
                self._begin(line.members)
            case "turn_context":
                return self._set(payload)
            case "response_item":
                return self._item(payload)
            case "event_msg":
                return self._event(payload, line.raw)
            case "compacted":
                self._answer = 0
                return compaction_of(self._number, payload, self._prompts)
            case _:
                pass
        return None

    # -- facts -------------------------------------------------------------------------------

    def _begin(self, payload: dict[str, Raw]) -> None:
        origin = self._origin
        if origin.session_id is not None:
            # A fork repeats the beginning of the session that it was made of.
            return
        origin.session_id = text(payload.get("id"))
        origin.cwd = text(payload.get("cwd")) or ""
        spawned = member(payload, "source", "subagent", "thread_spawn")
        task = text(payload.get("parent_thread_id")) or text(spawned.get("parent_thread_id"))
        origin.is_subagent = "subagent" in member(payload, "source")
        origin.parent_id = task or text(payload.get("forked_from_id"))
        time = self._times.take("")
        origin.created_at = SourceLine(1, payload).time() or (time if isinstance(time, str) else "")
        origin.facts = {name: payload[name].copy() for name in _FACTS if name in payload}
        self._provider = text(payload.get("model_provider"))

    def _set(self, payload: dict[str, Raw]) -> Entry | None:
        self._origin.cwd = text(payload.get("cwd")) or self._origin.cwd
        if text(payload.get("turn_id")) not in {None, self._turn_id}:
            # The mark of the turn is lost.
            self._begin_turn(payload)
        model = text(payload.get("model"))
        if not model or model == self._model:
            return None
        self._answer = 0
        self._model = model
        return ModelChange(model_id=model, provider=self._provider or UNSET)

    # -- items -------------------------------------------------------------------------------

    def _item(self, payload: dict[str, Raw]) -> Entry | None:
        said = message_of(payload, self._tools)
        if said is None:
            return None
        if said.role == "assistant":
            self._answer = self._answer or self._number
            said = structs.replace(said, model_id=self._model, provider=self._provider)
            return Message(message=one_message(said, _id(self._answer)))
        self._answer = 0
        if said.role == "user":
            return self._prompt(said)
        said = named(said, self._tools)
        for block in said.blocks:
            self._tools.pop(block.id, None)
        return Message(message=one_message(said))

    def _prompt(self, said: ParsedMessage) -> Entry:
        self._turns.note_prompt(self._here)
        message = one_message(said)
        self._prompts.add(self._number, message)
        if is_injected(said):
            content = fields(message)["content"]
            return CustomMessage(custom_type=INJECTED, content=content, display=False)
        return Message(message=message)

    @property
    def _here(self) -> Turn:
        return Turn(self._number, self._leaf, self._model)

    # -- events ------------------------------------------------------------------------------

    def _event(self, payload: dict[str, Raw], line: bytes) -> Entry | Opaque | None:
        match text(payload.get("type")):
            case "task_started" | "turn_started":
                self._begin_turn(payload)
            case "turn_aborted":
                self._answer = 0
            case "user_message":
                self._turns.ask(self._here)
            case "item_completed" if text(member(payload, "item").get("type")) == "UserMessage":
                self._turns.ask(self._here)
            case "token_count":
                return self._count(payload, line)
            case "thread_rolled_back":
                return self._roll_back(decoded(payload.get("num_turns"), int, 0))
            case _:
                pass
        return None

    def _begin_turn(self, payload: dict[str, Raw]) -> None:
        self._answer = 0
        self._turn_id = text(payload.get("turn_id")) or self._turn_id
        self._turns.begin(self._here)

    def _roll_back(self, count: int) -> Entry:
        """Return the move that takes the last `count` turns with a user's words off the path."""
        self._answer = 0
        turn = self._turns.drop(count)
        if turn is not None:
            self._leaf, self._model = turn.leaf, turn.model
            self._prompts.drop_from(turn.line)
        return Leaf(target_id=_id(self._leaf) if self._leaf else None, reason="rewind")

    def _count(self, payload: dict[str, Raw], line: bytes) -> Opaque | None:
        """Return the tokens of the last request, unless the event repeats an earlier count."""
        info = member(payload, "info")
        total = decoded(member(info, "total_token_usage").get("total_tokens"), int, None)
        found = member(info, "last_token_usage")
        if total is None or total == self._total or not found:
            return None
        self._answer = 0
        self._total = total
        return None if self._is_copied_turn else usage_record(usage_of(found), line)

    @property
    def _is_copied_turn(self) -> bool:
        """True in a turn that is older than the session: a fork copies its parent's turns."""
        return is_older(self._turn_id or "", self._origin.session_id or "")


def _word(kind: str, payload: dict[str, Raw]) -> str:
    """Return Codex's word for a line: its type, and that of the item or event."""
    if kind not in {"response_item", "event_msg"}:
        return kind
    return f"{kind}.{text(payload.get('type')) or 'none'}"


def _id(number: int) -> str:
    return f"line-{number}"
