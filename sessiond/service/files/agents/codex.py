"""Rollouts of Codex: a list of items, as the entries of a native file.

What the model sees are the items of type `response_item`. Events repeat the words for people; here they
say where a turn ends, what was rolled back, and what an answer cost. A rollback leaves the dropped turns
in the file: the next turn stands beside them here.

    {"timestamp":"…","type":"response_item",
     "payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Raw, Struct, structs

from sessiond.dialects.lenient_json import items, lenient, text
from sessiond.dialects.native.dialect import NATIVE
from sessiond.dialects.payload import read_message
from sessiond.model.entries import Compaction, Entry, Message, ModelChange, SessionInfoEntry
from sessiond.model.parsed_message import ParsedMessage
from sessiond.service.files.agents.codex_items import ITEMS, message_of, said_by_user, usage_of
from sessiond.service.files.agents.replies import joined, named
from sessiond.service.files.agents.source import AgentLog, Report, SourceLine, decoded, member
from sessiond.service.files.agents.writing import Conversation, Origin, Step, messages

__all__ = ["codex", "is_codex"]

AGENT: Final = "codex"
_TYPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context"})
# Events that repeat items for people, or mark what is seen without them.
_REPEATED: Final = frozenset(
    {
        *("agent_message", "agent_reasoning", "agent_reasoning_raw_content", "item_completed"),
        *("item_started", "task_complete", "turn_complete", "context_compacted"),
    }
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


def codex(log: AgentLog, report: Report) -> Conversation:
    """Return the conversation of a rollout; `report` gets what has no place in it."""
    reading = _Reading(report)
    if log.beside.before is None:
        detail = "the beginning of this fork is in another rollout, which is not there"
        report.add(1, "orphan", detail)
    before = log.beside.before or ()
    for at, line in enumerate(report.objects(log)):
        reading.take(line)
        if not at:
            # The first line says whose session this is, so the lines of other rollouts come behind.
            for earlier in Report().objects(AgentLog(log.name, before, b"")):
                reading.take(earlier)
            reading.lines_before = len(before)
    talk = reading.conversation()
    if log.beside.title:
        talk.info = SessionInfoEntry(name=log.beside.title)
    return talk


class _Turn(Struct):
    """A turn: the step before the turn, and whether a user spoke in it."""

    before: str | None
    is_asked: bool = False


class _Reading:
    """The steps so far, the answer that is being read, and the turns that a rollback may drop."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._origin = Origin(AGENT)
        self.lines_before = 0
        """Number of lines of other rollouts before those of this file."""
        self._steps: list[Step] = []
        self._leaf: str | None = None
        # The leaf before the last message of the user.
        self._before_user: str | None = None
        # The parts of the answer whose items are being read.
        self._parts: list[ParsedMessage] = []
        self._key, self._time = "", ""
        self._tools: dict[str, str] = {}
        self._turns: list[_Turn] = []
        self._model: str | None = None
        self._provider: str | None = None
        self._total: int | None = None
        # The last answer, which a count of tokens is about.
        self._answer: tuple[Step, ParsedMessage] | None = None

    def take(self, line: SourceLine) -> None:
        """Take the next line of the file."""
        kind = line.word("type") or ""
        payload = member(line.members, "payload")
        if kind != "response_item" and kind in ITEMS and not payload:
            # The oldest rollouts have the items themselves as lines.
            kind, payload = "response_item", line.members
        time = line.time()
        match kind:
            case "session_meta":
                self._begin(payload, time)
            case "" if line.word("id"):
                self._begin(line.members, time)
            case "turn_context":
                self._set(line, payload)
            case "response_item":
                self._item(line, payload)
            case "event_msg":
                self._event(line, payload)
            case "compacted":
                self._compact(line, payload)
            case _:
                self._report.leave_out(line.number, f"lines of type {kind or 'none'}")

    def conversation(self) -> Conversation:
        """Return what the lines say."""
        self._end_answer()
        return Conversation(self._origin, self._steps, None, self._leaf)

    # -- facts ---------------------------------------------------------------------------

    def _begin(self, payload: dict[str, Raw], time: str) -> None:
        origin = self._origin
        if origin.session_id is not None:
            # A fork repeats the beginning of the session that it was made of.
            return
        origin.session_id = text(payload.get("id"))
        origin.cwd = text(payload.get("cwd")) or ""
        origin.created_at = SourceLine(1, payload).time() or time
        origin.facts = {name: payload[name] for name in _FACTS if name in payload}
        self._provider = text(payload.get("model_provider"))

    def _set(self, line: SourceLine, payload: dict[str, Raw]) -> None:
        self._origin.cwd = text(payload.get("cwd")) or self._origin.cwd
        model = text(payload.get("model"))
        if model and model != self._model:
            self._end_answer()
            self._model = model
            entry = ModelChange(model_id=model, provider=self._provider or UNSET)
            self._put(self._key_of(line), line.time(), [entry])

    # -- items ---------------------------------------------------------------------------

    def _item(self, line: SourceLine, payload: dict[str, Raw]) -> None:
        said = message_of(payload, self._tools)
        if said is None:
            kind = text(payload.get("type")) or "none"
            role = text(payload.get("role"))
            name = f"items of type {kind}" + (f" ({role})" if role else "")
            self._report.leave_out(line.number, name)
            return
        if said.role == "assistant":
            if not self._parts:
                self._key, self._time = self._key_of(line), line.time()
            self._parts.append(said)
            return
        self._end_answer()
        if said.role == "user":
            self._before_user = self._leaf
        entries = messages(named(said, self._tools), line.time())
        self._put(self._key_of(line), line.time(), entries)

    def _end_answer(self) -> None:
        """Put the answer whose items were read, if there is one."""
        if self._parts:
            said = joined(self._parts)
            said = structs.replace(said, model_id=self._model, provider=self._provider)
            self._parts = []
            entries = messages(said, self._time)
            self._answer = self._put(self._key, self._time, entries), said

    def _key_of(self, line: SourceLine) -> str:
        return f"line-{self.lines_before + line.number}"

    def _put(self, key: str, time: str, entries: list[Entry]) -> Step:
        step = Step(key, self._leaf, time, entries)
        self._steps.append(step)
        self._leaf = key
        return step

    # -- events --------------------------------------------------------------------------

    def _event(self, line: SourceLine, payload: dict[str, Raw]) -> None:
        match text(payload.get("type")):
            case "task_started" | "turn_started":
                self._end_answer()
                self._turns.append(_Turn(self._leaf))
            case "user_message":
                self._ask()
            case "item_completed" if text(member(payload, "item").get("type")) == "UserMessage":
                self._ask()
            case "token_count":
                self._count(payload)
            case "thread_rolled_back":
                self._roll_back(decoded(payload.get("num_turns"), int, 0))
            case kind if kind not in _REPEATED:
                self._report.leave_out(line.number, f"events of type {kind or 'none'}")
            case _:
                pass

    def _ask(self) -> None:
        """Note that a user spoke in this turn; files without marks of turns begin one here."""
        if not self._turns or self._turns[-1].is_asked:
            self._turns.append(_Turn(self._before_user))
        self._turns[-1].is_asked = True

    def _roll_back(self, count: int) -> None:
        self._end_answer()
        while count > 0 and self._turns:
            turn = self._turns.pop()
            self._leaf = turn.before
            count -= turn.is_asked

    def _count(self, payload: dict[str, Raw]) -> None:
        """Add the tokens of the last request to the answer, unless the event repeats one."""
        self._end_answer()
        info = member(payload, "info")
        total = decoded(member(info, "total_token_usage").get("total_tokens"), int, None)
        found = member(info, "last_token_usage")
        if total is None or total == self._total or not found or self._answer is None:
            return
        self._total = total
        step, said = self._answer
        usage = usage_of(found)
        said = structs.replace(said, usage=usage if said.usage is None else said.usage.plus(usage))
        step.entries = messages(said, step.time)
        self._answer = step, said

    # -- compactions ---------------------------------------------------------------------

    def _compact(self, line: SourceLine, payload: dict[str, Raw]) -> None:
        self._end_answer()
        history = items(payload.get("replacement_history", b""))
        if history is None:
            kept = [*self._asked(), said_by_user(text(payload.get("message")) or "")]
        else:
            kept = self._replaced(line.number, history)
        entry = Compaction(messages=[one for said in kept for one in NATIVE.compose(said, "")])
        self._put(self._key_of(line), line.time(), [entry])

    def _replaced(self, number: int, history: list[Raw]) -> list[ParsedMessage]:
        """Return the messages of a replaced history in line `number`; answers in one piece each."""
        found: list[ParsedMessage] = []
        tools: dict[str, str] = {}
        for item in history:
            said = message_of(lenient(item), tools)
            if said is None:
                kind = text(lenient(item).get("type")) or "none"
                self._report.leave_out(number, f"items of type {kind}")
                continue
            if said.role == "assistant" and found and found[-1].role == "assistant":
                found[-1] = joined([found[-1], said])
            else:
                found.append(named(said, tools))
        return found

    def _asked(self) -> list[ParsedMessage]:
        """Return the messages of the user on the way to the leaf."""
        above = {step.key: step for step in self._steps}
        found: list[ParsedMessage] = []
        at = self._leaf
        while at is not None:
            for entry in above[at].entries:
                said = read_message(entry.message) if isinstance(entry, Message) else None
                if said is not None and said.role == "user":
                    found.append(said)
            at = above[at].parent
        return found[::-1]
