"""Context deltas of a session that grows, branches and is compacted, in every view.

Law: the part that a caller keeps and the part that it is sent make the whole context, messages and
sources. No message is sent that both contexts begin with. The whole context is that of the file,
and does not change when the session is opened again. The file is replayed by the rules of
protocol.md, without code of sessiond.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from tests.fuzz.conversations import ENTRIES, INFO, MESSAGES
from tests.fuzz.plain import Answer, Plain
from tests.torture.replay import RECORDS, Replay, read_rows

__all__ = ["followed"]

_STEPS: Final = 40
_VIEWS: Final[tuple[dict[str, Any], ...]] = (
    *(
        {"shape": shape, "repair": repair}
        for shape in ("stored", "openai", "anthropic")
        for repair in (False, True)
    ),
    {"shape": "openai", "include": ["system"]},
)


def followed(client: Plain, profile: Path, seed: int) -> Iterator[str]:
    """Give what was wrong with the contexts of one session."""
    session_id = f"session-{seed}"
    answer = client.call("session/create", cwd="/p", session_id=session_id, persist="immediate")
    path = Path(answer.result["session"]["path"])
    assert path.is_relative_to(profile), "the daemon's own"
    life = _Life(client, session_id, path, random.Random(seed))
    for step in range(_STEPS):
        yield from (f"step {step}: {fault}" for fault in life.step())
    yield from life.opened_again()
    yield from client.faults
    client.faults.clear()
    client.told.clear()


class _Life:
    """A session, and the contexts that the callers of each view have."""

    def __init__(self, client: Plain, session_id: str, path: Path, dice: random.Random) -> None:
        self._client = client
        self._id = session_id
        self._path = path
        self._dice = dice
        self._held: list[list[tuple[str | None, Any]]] = [[] for _ in _VIEWS]
        self._foreign = 0

    def _call(self, method: str, **params: Any) -> Answer:
        return self._client.call(method, session_id=self._id, **params)

    def step(self) -> Iterator[str]:
        acts = [self._say] * 6 + [self._set, self._go, self._compact, self._inform, self._intrude]
        acts += [self._send_again] * 2 + [self._compact_beside]
        self._dice.choice(acts)()
        replay = self._replay()
        yield from self._path_faults(replay)
        for _ in range(3):
            view = self._dice.randrange(len(_VIEWS))
            nodes = [row.id for row in replay.rows if replay.node(row.id)]
            at: dict[str, Any] = {}
            if nodes and self._dice.random() < 0.3:
                at = {"entry_id": self._dice.choice(nodes)}
            yield from (f"{_VIEWS[view]} at {at}: {fault}" for fault in self._ask(replay, view, at))

    # -- acts: what does not fit where it is drawn is refused, and changes nothing ----------------

    def _say(self) -> None:
        more: dict[str, Any] = {}
        if self._dice.random() < 0.2 and (ids := self._ids()):
            more["parent_id"] = self._dice.choice([None, *ids])
        entry = {"type": "message", "message": self._dice.choice(MESSAGES)}
        self._call("session/append", entry=entry, **more)

    def _set(self) -> None:
        self._call("session/append", entry=self._dice.choice(ENTRIES))

    def _inform(self) -> None:
        nodes = self._nodes()
        if nodes and self._dice.random() < 0.5:
            self._call("session/label", entry_id=self._dice.choice(nodes), label="here")
        else:
            entry = {"type": "session_info"} | self._dice.choice(INFO)
            self._call("session/append", entry=entry)

    def _go(self) -> None:
        if nodes := self._nodes():
            self._call("session/branch", entry_id=self._dice.choice(nodes))

    def _send_again(self) -> None:
        """Go back to before a message of the path and send that message again."""
        path = self._call("session/path", limit=1000).result["entries"]
        said = [(at, row["entry"]) for at, row in enumerate(path) if "message" in row["entry"]]
        if said:
            at, entry = self._dice.choice(said[-4:])
            parent = path[at - 1]["entry"]["id"] if at else None
            sent = {"type": "message", "message": entry["message"]}
            self._call("session/append", entry=sent, parent_id=parent)

    def _compact(self) -> None:
        path = [row["entry"]["id"] for row in self._call("session/path").result["entries"]]
        entry: dict[str, Any] = {"type": "compaction", "summary": "before"}
        entry["first_kept_entry_id"] = self._dice.choice([None, *path[-5:]])
        self._call("session/append", entry=entry)

    def _compact_beside(self) -> None:
        """Let another program compact, from any entry on."""
        if ids := self._ids():
            kept = self._dice.choice(ids[-8:])
            body = {"type": "compaction", "summary": "so far", "first_kept_entry_id": kept}
            self._intrude([body])

    def _intrude(self, bodies: Sequence[dict[str, Any]] = ()) -> None:
        """Append lines of another program, to which every entry may be a parent."""
        self._call("session/close")
        lines: list[dict[str, Any]] = []
        parent = self._dice.choice([None, *self._ids()])
        for body in bodies or [self._foreign_body() for _ in range(self._dice.randrange(1, 4))]:
            self._foreign += 1
            line = {"id": f"f{self._foreign}", "parent_id": parent}
            line["timestamp"] = "2026-01-15T10:30:00.000Z"
            lines.append(line | body)
            parent = line["id"]
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        os.close(fd)

    def _foreign_body(self) -> dict[str, Any]:
        """Return the fields of an entry: a message or, for a program without records, a custom entry."""
        ids = self._ids()
        match self._dice.randrange(6):
            case 0 if ids:
                return {"type": "label", "target_id": self._dice.choice(ids), "label": "there"}
            case 1:
                return {"type": "session_info", "name": "another title"}
            case 2 if ids:
                target = self._dice.choice([None, *ids])
                return {"type": "leaf", "target_id": target, "reason": "branch"}
            case _:
                return {"type": "message", "message": self._dice.choice(MESSAGES)}

    # -- what it is held against --------------------------------------------------------------

    def _replay(self) -> Replay:
        replay = Replay(read_rows(self._path.read_bytes())[0])
        for _ in replay.rows:
            replay.advance()
        return replay

    def _ids(self) -> list[str]:
        """Return the ids of all entries, records too: any of them may be named as a parent."""
        return [row.id for row in read_rows(self._path.read_bytes())[0] if row.is_entry]

    def _nodes(self) -> list[str]:
        rows = read_rows(self._path.read_bytes())[0]
        return [row.id for row in rows if row.is_entry and row.type not in RECORDS]

    def _path_faults(self, replay: Replay) -> Iterator[str]:
        rows = self._call("session/path", limit=1000).result["entries"]
        path = replay.path(replay.heads["main"][0])
        if (seqs := [row["seq"] for row in rows]) != path:
            yield f"the path is {seqs}, not {path}"
        for above, row in zip([None, *(row["entry"]["id"] for row in rows)], rows, strict=False):
            parent_id = row["entry"]["parent_id"]
            if row.get("resolved_parent_id", parent_id) != above:
                yield f"the parent of {row['seq']} is not {above}: {row}"
            if row.get("resolved_parent_id", "") == parent_id:
                yield f"the resolved parent of {row['seq']} is no other than its parent"
        told = self._call("session/get").result["session"]
        model, provider, level = _settings(replay, replay.heads["main"][0])
        if (told["model"], told["provider"], told["thinking_level"]) != (model, provider, level):
            yield f"{model}, {provider}, {level} are in force, not {told}"
        counted = sum(replay.rows[seq - 1].type == "message" for seq in path)
        if (told["message_count"], told["leaf_id"]) != (counted, replay.leaf_id("main")):
            yield f"{counted} messages to {replay.leaf_id('main')}, not {told}"

    def _ask(self, replay: Replay, view: int, at: dict[str, Any]) -> Iterator[str]:
        whole = self._call("session/build_context", **at, **_VIEWS[view]).result
        pairs = list(zip(whole["sources"], whole["messages"], strict=True))
        leaf = replay.node(at["entry_id"]) if at else replay.heads["main"][0]
        if _VIEWS[view] == {"shape": "stored", "repair": False}:
            sources = [source for source, _ in replay.context(leaf)]
            if whole["sources"] != sources:
                yield f"the sources are {whole['sources']}, not {sources}"
        model, provider, level = _settings(replay, leaf)
        named = {"model_id": model} | ({"provider": provider} if provider is not None else {})
        expected = (named if model is not None else None, level or "off")
        if (whole["model"], whole["thinking_level"]) != expected:
            yield f"{expected} are in force, not {whole['model']}, {whole['thinking_level']}"
        if self._held[view]:
            leaf_id, held = self._dice.choice(self._held[view])
            known = {"leaf_id": leaf_id, "count": len(held)}
            told = self._call("session/build_context", **at, **_VIEWS[view], known=known).result
            yield from (f"with {known}: {fault}" for fault in _delta_faults(held, told, pairs))
        self._held[view].append((whole["leaf_id"], pairs))

    def opened_again(self) -> Iterator[str]:
        """Give what another opening of the session shows otherwise."""
        asked = [(node, view) for node in self._nodes() for view in range(len(_VIEWS))]
        before = [self._at(*one) for one in asked]
        self._call("session/close")
        self._dice.shuffle(order := list(enumerate(asked)))
        for number, (node, view) in order:
            if (now := self._at(node, view)) != before[number]:
                yield f"{_VIEWS[view]} at {node}: {now} after another opening, not {before[number]}"

    def _at(self, node: str, view: int) -> Any:
        return self._call("session/build_context", entry_id=node, **_VIEWS[view]).result


def _settings(replay: Replay, leaf: int) -> tuple[Any, Any, Any]:
    """Return model, provider and level in force: of what counts at a leaf, the later line wins."""
    path = set(replay.path(leaf))
    found: dict[str, Any] = {}
    for row in replay.rows:
        if row.type == "session_info":
            names = ("model", "provider", "thinking_level")
            found |= {name: row.text(name) for name in names if name in row.fields}
        elif row.seq in path and row.type == "model_change":
            found |= {"model": row.text("model_id"), "provider": row.text("provider")}
        elif row.seq in path and row.type == "thinking_level_change":
            found["thinking_level"] = row.text("thinking_level")
        elif row.seq in path and row.type == "message":
            said = row.text("message")
            if said["role"] == "assistant" and said.get("model"):
                found |= {"model": said["model"], "provider": said.get("provider")}
    return found.get("model"), found.get("provider"), found.get("thinking_level")


def _delta_faults(
    held: list[tuple[str | None, Any]], told: dict[str, Any], whole: list[tuple[str | None, Any]]
) -> Iterator[str]:
    unchanged = told["unchanged"]
    sent = list(zip(told["sources"], told["messages"], strict=True))
    if held[:unchanged] + sent != whole:
        yield f"{unchanged} that are held and {told['sources']} are not {whole}"
    same = list(takewhile(lambda pair: pair[0] == pair[1], zip(held, whole, strict=False)))
    # A prompt that is the first message and changed makes the whole anew.
    if unchanged != len(same) and not (unchanged == 0 and (not held or whole[0][0] is None)):
        yield f"{unchanged} are unchanged, not {len(same)}"
