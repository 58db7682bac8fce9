"""Random sessions as pi may have written them; equal seeds give equal sessions.

Values that JavaScript spells in its own way (numbers, escapes) are `"@@1.50@@"` in arguments until
`as_json` writes them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

__all__ = ["FUNCTIONS", "as_json", "drawn"]

Json = Any
TIME = "2025-01-01T00:00:00.000Z"
RAW = re.compile(r'"@@(.*?)@@"')
NUMBERS = ["1.50", "1.0", "-0", "1e21", "1e-7", "123456789012345680000", "0.1", "100", "-5e-324"]
WORDS = ["a", "zz", " ", "é", "😀", "\u2028", '"\\\n\t', "\u0007\u007f", "\U0001d4b3y", "ÿ\u0301"]
HALF = "\ud83d"
"""Comes back as it is stored, which strict readers refuse; so it is in what gives figures only.

It is in arguments alone: in a text it is read as U+FFFD, which counts as a token.
"""
PATHS = ["f1.txt", "f2.txt", "F3", "é.py", "😀.py", "", "\ue000.py"]
TOOLS = ["read", "write", "edit", "bash", "grep", "Read"]
KEYS = ["path", "command", "2", "10", "1", "b", "é", "", "01"]
BUDGETS = [0, 1, 3, 20, 50, 100, 200, 400, 1000, 100_000]


def as_json(value: Json) -> str:
    """Return the value as JSON, with JavaScript's spellings in place."""
    return RAW.sub(r"\1", json.dumps(value))


class Drawing:
    """Draws one session after the other."""

    def __init__(self, seed: int, words: list[str], in_arguments: Sequence[str] = ()) -> None:
        self.chance = random.Random(seed)
        self.words = words
        self.in_arguments = [*words, *in_arguments]

    def text(self, most: int = 60, words: Sequence[str] = ()) -> str:
        chosen = self.chance.choices(words or self.words, k=self.chance.randrange(6))
        chosen.append("z" * self.chance.choice([0, 1, self.chance.randrange(most * 10)]))
        self.chance.shuffle(chosen)
        return "".join(chosen)

    def texts(self) -> list[Json]:
        return [{"type": "text", "text": self.text()} for _ in range(self.chance.randrange(3))]

    def images(self) -> list[Json]:
        image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
        return [image] if self.chance.random() < 0.2 else []

    def content(self) -> Json:
        return self.text() if self.chance.random() < 0.5 else self.texts() + self.images()

    def value(self, depth: int = 0) -> Json:
        kind = self.chance.randrange(8 if depth < 3 else 6)
        if kind < 2:
            return self.text(2, self.in_arguments)
        if kind < 4:
            return f"@@{self.chance.choice(NUMBERS)}@@"
        if kind < 6:
            return self.chance.choice([True, False, None, 7, -12])
        count = self.chance.randrange(4)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(count)]
        names = self.chance.sample(KEYS, count)
        return {name: self.value(depth + 1) for name in names}

    def call(self) -> Json:
        arguments = {name: self.value() for name in self.chance.sample(KEYS, 3)}
        if self.chance.random() < 0.6:
            arguments["path"] = self.chance.choice([*PATHS, 5, None])
        call = {"type": "toolCall", "id": "c", "name": self.chance.choice(TOOLS)}
        return call | {"arguments": arguments}

    def assistant(self) -> Json:
        blocks = self.texts()
        if self.chance.random() < 0.4:
            blocks.insert(0, {"type": "thinking", "thinking": self.text()})
        blocks += [self.call() for _ in range(self.chance.choice([0, 0, 1, 2]))]
        said: Json = {"role": "assistant", "content": blocks, "api": "a"}
        said |= {"provider": f"p{self.chance.randrange(3)}", "model": "m", "timestamp": 1}
        said["stopReason"] = self.chance.choice(["stop", "toolUse", "length", "error", "aborted"])
        counts = [self.chance.choice([0, 1, 700]) for _ in range(4)]
        usage = dict(zip(("input", "output", "cacheRead", "cacheWrite"), counts, strict=True))
        total = self.chance.choice([None, 0, sum(counts), 4321])
        if total is not None:
            usage["totalTokens"] = total
        if self.chance.random() < 0.7:
            said["usage"] = usage
        return said

    def message(self) -> Json:
        kind = self.chance.randrange(10)
        if kind < 3:
            return {"role": "user", "content": self.content(), "timestamp": 1}
        if kind < 6:
            return self.assistant()
        if kind < 8:
            result = {"role": "toolResult", "toolCallId": "c", "toolName": "bash"}
            return result | {"content": self.texts() + self.images(), "isError": False}
        if kind == 8:
            ran = {"role": "bashExecution", "command": "ls", "output": self.text()}
            code = self.chance.choice([{}, {"exitCode": 0}, {"exitCode": 2}])
            flags = {name: self.chance.random() < 0.3 for name in ("cancelled", "truncated")}
            more = {"fullOutputPath": "/o"} if flags["truncated"] else {}
            return ran | code | flags | more | {"timestamp": 1}
        return self.chance.choice(
            [
                {"role": "zzz", "content": "abc"},
                {"role": "custom", "customType": "x", "content": self.content(), "display": True},
            ]
        )

    def entry(self, n: int, parent: str | None, before: list[str]) -> Json:
        base: Json = {"id": f"e{n}", "parentId": parent, "timestamp": TIME}
        any_id = self.chance.choice([*before, "nowhere"])
        files = {"readFiles": ["f1.txt", "old"], "modifiedFiles": ["f2.txt"]}
        details: Json = self.chance.choice([{}, {}, {"details": files}])
        details |= self.chance.choice([{}, {}, {"fromHook": True}, {"fromHook": False}])
        kinds: list[tuple[int, Json]] = [
            (60, {"type": "message", "message": None}),
            (5, {"type": "custom_message", "customType": "ct", "display": False}),
            (4, {"type": "branch_summary", "fromId": any_id, "summary": self.text()} | details),
            (6, {"type": "compaction", "summary": self.text(), "tokensBefore": 9} | details),
            (5, {"type": "custom", "customType": "ct", "data": {"i": n}}),
            (5, {"type": "model_change", "provider": "pc", "modelId": "mc"}),
            (5, {"type": "thinking_level_change", "thinkingLevel": "high"}),
            (4, {"type": "label", "targetId": any_id, "label": "l"}),
            (4, {"type": "session_info", "name": f"n{n}"}),
            (2, {"type": "future_thing", "x": 1}),
        ]
        (_, found), *_ = self.chance.choices(kinds, [weight for weight, _ in kinds])
        entry = {"type": found["type"]} | base | found
        if entry["type"] == "message":
            entry["message"] = self.message()
        elif entry["type"] == "custom_message":
            entry["content"] = self.content()
        elif entry["type"] == "compaction":
            entry["firstKeptEntryId"] = any_id
        return entry

    def tree(self) -> list[Json]:
        found: list[Json] = []
        ids: list[str] = []
        for n in range(self.chance.randrange(1, 26)):
            parent = ids[-1] if ids else None
            if ids and self.chance.random() < 0.1:
                parent = self.chance.choice([*ids, None])
            found.append(self.entry(n, parent, ids))
            ids.append(f"e{n}")
        return found

    def path(self) -> list[Json]:
        """Return the path from a root to the last entry of a tree."""
        entries = self.tree()
        parents = {entry["id"]: entry for entry in entries}
        path: list[Json] = []
        at: Json = entries[-1]
        while at is not None:
            path.append(at)
            at = parents.get(at["parentId"])
        return path[::-1]


def drawn(function: str, seed: int) -> Json:
    """Return the input of one function."""
    is_figure = function in {"tokens", "findCutPoint"}
    drawing = Drawing(seed, WORDS, [HALF] * is_figure)
    chance = drawing.chance
    match function:
        case "tokens":
            message = drawing.message()
            message.pop("usage", None)
            return {"message": message}
        case "context":
            entries = drawing.tree()
            leaf: Json = {} if chance.random() < 0.5 else {"leafId": chance.choice(entries)["id"]}
            return {"entries": entries} | leaf
        case "contextTokens":
            return {"entries": drawing.tree()}
        case "findCutPoint":
            entries = drawing.path()
            span = {"start": 0, "end": len(entries), "keepRecentTokens": chance.choice(BUDGETS)}
            return {"entries": entries} | span
        case "prepareCompaction":
            settings = {"enabled": True, "reserveTokens": 16384}
            settings["keepRecentTokens"] = chance.choice(BUDGETS)
            return {"path": drawing.path(), "settings": settings}
        case "prepareBranch":
            return {"entries": drawing.path(), "tokenBudget": chance.choice(BUDGETS)}
        case "leaveBranch":
            entries = drawing.tree()
            leaf_id, target_id = (chance.choice(entries)["id"] for _ in range(2))
            return {"entries": entries, "leafId": leaf_id, "targetId": target_id}
        case _:
            return {"messages": [drawing.message() for _ in range(chance.randrange(1, 5))]}


FUNCTIONS = [
    "tokens",
    "context",
    "contextTokens",
    "findCutPoint",
    "prepareCompaction",
    "prepareBranch",
    "leaveBranch",
    "serialize",
]
