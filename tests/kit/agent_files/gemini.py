"""Sessions of Gemini CLI, made from a seed: a log of operations on one list of messages.

After each move of a script, `order` is the context that a reader must find in the lines so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from tests.kit.agent_files.dice import PIXEL, START_MS, Dice, Sizes, plan, spelled
from tests.kit.agent_files.said import Json, Role

MODELS: Final = ("gemini-3-pro", "gemini-3-flash")
TOOLS: Final = (("list_directory", "ReadFolder"), ("read_file", "ReadFile"), ("run_shell", "Shell"))


@dataclass(frozen=True)
class Chat:
    """Chat that a script writes: its folder and its kind, main or subagent."""

    cwd: str = "/home/ann/notes"
    kind: str = "main"


class GeminiScript:
    """One chat of Gemini CLI in the making; iterate over its lines once."""

    def __init__(
        self,
        seed: int | str,
        sizes: Sizes,
        *,
        moves: Mapping[str, Callable[[GeminiScript], None]],
        chat: Chat | None = None,
        start_ms: int = START_MS,
    ) -> None:
        self.dice = Dice(f"gemini {seed}", start_ms)
        self.sizes = sizes
        self.chat = chat or Chat()
        self.session_id = self.dice.uuid()
        self.started_ms = start_ms
        self.features: Counter[str] = Counter()
        self.live: list[Json] = []
        """Messages of the list, which a replaced list spells again."""
        self.unseen: set[str] = set()
        """Ids of the messages that the model does not see."""
        self.used: dict[str, int] = {}
        """Total tokens of the last version of each message, of all branches."""
        self._places: dict[str, int] = {}
        self._moves = moves
        self._out: list[bytes] = []

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines, without their newlines."""
        for _, lines in self.steps():
            yield from lines

    def steps(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield each move and its lines; until the next move, `order` tells what they mean."""
        now = self.dice.tick()
        head: Json = {
            "sessionId": self.session_id,
            "projectHash": sha256(self.chat.cwd.encode()).hexdigest(),
            "startTime": now,
            "lastUpdated": now,
            "kind": self.chat.kind,
        }
        self.put(head)
        for name in ("head", *plan(self.dice, tuple(self._moves), self.sizes.turns, "plain")):
            if name != "head":
                self._moves[name](self)
            lines, self._out = self._out, []
            yield name, lines

    @property
    def order(self) -> list[tuple[Role, tuple[str, ...]]]:
        """Return role and ids of each message of the context; a result has the id of its reply."""
        found: list[tuple[Role, tuple[str, ...]]] = []
        for message in self.live:
            if message["id"] in self.unseen:
                continue
            ids: tuple[str, ...] = (message["id"],)
            role: Role = "assistant" if message["type"] == "gemini" else "user"
            found.append((role, ids))
            done = [one for one in message.get("toolCalls", []) if one["result"] is not None]
            result: tuple[Role, tuple[str, ...]] = ("tool", ids)
            found += [result] * len(done)
        return found

    # Writing lines.

    def count(self, feature: str) -> None:
        """Count a feature that the lines now have."""
        self.features[feature] += 1

    def put(self, line: Json) -> None:
        """Write a line."""
        self._out.append(spelled(line))

    def put_message(self, message: Json) -> None:
        """Write a message: a new one at the end of the list, a known one at its old place."""
        self.put(message)
        place = self._places.setdefault(message["id"], len(self.live))
        if place < len(self.live):
            self.live[place] = message
            self.count("written_again")
        else:
            self.live.append(message)
        tokens = message.get("tokens")
        if tokens:
            self.used[message["id"]] = tokens["total"]

    def patch(self, **members: Any) -> None:
        """Write a patch of the session's own facts."""
        self.put({"$set": {**members, "lastUpdated": self.dice.tick(0, 20)}})

    def words(self) -> str:
        """Return words of a message."""
        return self.dice.text(self.sizes.text_bytes)

    # Parts of a turn.

    def say(self, kind: str, content: Any, *, seen: bool = True, **more: Any) -> str:
        """Write a message that is not the model's; return its id."""
        message_id = self.dice.uuid()
        message = {
            "id": message_id,
            "timestamp": self.dice.tick(),
            "type": kind,
            "content": content,
        }
        if not seen:
            self.unseen.add(message_id)
        self.put_message(message | more)
        return message_id

    def prompt(self) -> None:
        """Write a prompt."""
        self.say("user", [{"text": self.words()}])

    def answer(self, calls: int = 0, *, pending: bool = False) -> None:
        """Write a reply; its tokens and then its calls come by writing the reply again."""
        dice = self.dice
        message: Json = {
            "id": dice.uuid(),
            "timestamp": dice.tick(),
            "type": "gemini",
            "content": self.words() if dice.chance(0.8) else [{"text": self.words()}],
            "thoughts": self._thoughts(),
            "tokens": None,
            "model": dice.pick(MODELS),
        }
        self.put_message(message)
        message = message | {"tokens": self._tokens()}
        self.put_message(message)
        if calls:
            message = message | {"toolCalls": [self._call(pending=pending) for _ in range(calls)]}
            self.put_message(message)
            self.count("calls_by_writing_again")
        if dice.chance(0.7):
            self.patch()

    def _thoughts(self) -> list[Json]:
        if not self.dice.chance(0.5):
            return []
        subject, words, now = self.dice.text(10), self.words(), self.dice.tick()
        return [{"subject": subject, "description": words, "timestamp": now}]

    def _tokens(self) -> Json:
        dice = self.dice
        cached = dice.number(0, 4000)
        given, out, thoughts = cached + dice.number(1, 900), dice.number(1, 90), dice.number(0, 50)
        return {
            "input": given,
            "output": out,
            "cached": cached,
            "thoughts": thoughts,
            "tool": 0,
            "total": given + out + thoughts,
        }

    def _call(self, *, pending: bool) -> Json:
        dice = self.dice
        name, shown = dice.pick(TOOLS)
        call_id = f"{name}-{dice.hex(8)}"
        failed = dice.chance(0.2)
        said = {"error" if failed else "output": dice.text(self.sizes.result_bytes)}
        answer = {"functionResponse": {"id": call_id, "name": name, "response": said}}
        return {
            "id": call_id,
            "name": name,
            "args": {"dir_path": "."},
            "result": None if pending else [answer],
            "status": "cancelled" if pending else "error" if failed else "success",
            "timestamp": dice.tick(),
            "displayName": shown,
            "description": ".",
            "resultDisplay": "Listed 1 item(s).",
            "renderOutputAsMarkdown": False,
        }

    def replace(self, messages: list[Json]) -> None:
        """Replace the whole list."""
        self._set(messages)
        self.patch(messages=messages)
        self.count("replaced_list")

    def rewind(self, place: int, message_id: str) -> None:
        """Take back the message at a place, and all that came after."""
        self.put({"$rewindTo": message_id})
        self._set(self.live[:place])

    def _set(self, messages: list[Json]) -> None:
        self.live = messages
        self._places = {one["id"]: place for place, one in enumerate(messages)}

    def place_of_prompt(self) -> int | None:
        """Return the place of one of the last prompts in the list, or None."""
        last = range(max(0, len(self.live) - 12), len(self.live))
        places = [place for place in last if self.live[place]["type"] == "user"]
        return self.dice.pick(places[-3:]) if places else None


def picture() -> Json:
    """Return a part with an image."""
    return {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
