"""Random requests to a real daemon, in bursts, with kills in between; each is checked.

Every burst is sent on one connection without waiting. Every acknowledged effect must be there. The
state of each session must be the one after some number of the burst's requests.
"""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.kit.dice import seeds
from tests.kit.link import Link, Refused, request
from tests.kit.remembered import Remembered
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.imagined import Imagined, Request, Seen

pytestmark = [pytest.mark.slow, pytest.mark.drawn]

IDS = ["session-", "session-a", "session-A", "x_session-a", "session_a", "session-ab"]
TAGS = ["red", "green", "%", "re"]
TITLES = ["Fix the clock", "fix THE clock", "100%", "_", "", None]
NAME = re.compile(r"(?:\d{4}-[-\dT]*_)?([\w-]*)\.jsonl.*")
ROUNDS, BURST = 40, 20


class Requests:
    """The random requests of a run; equal seeds give equal runs."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.entries = 0
        self.draws: dict[str, Callable[[Imagined], dict[str, Any]]] = {
            "session/create": self.create,
            "append": self.append,
            "session/update": self.update,
            "session/label": self.label,
            "session/rewind": self.rewind,
            "session/decide": self.decide,
            "session/task": self.task,
            "session/prune": self.prune,
            "session/signal": self.queue,
        }
        for verb in ("archive", "unarchive", "delete", "purge", "close"):
            self.draws[f"session/{verb}"] = lambda _session: {}

    def burst(self, sessions: dict[str, Imagined]) -> list[tuple[str, Request]]:
        drawn: list[tuple[str, Request]] = []
        now = dict(sessions)
        for _ in range(self.chance.randrange(1, BURST)):
            session_id = self.chance.choice(IDS)
            one = self.draw(now[session_id])
            if one[0] == "session/purge" and session_id in [name for name, _ in drawn]:
                # A purge behind requests that find nothing may come behind a later create.
                continue
            drawn.append((session_id, one))
            now[session_id], _ = now[session_id].after(one)
        return drawn

    def draw(self, session: Imagined) -> Request:
        pick = self.chance.choice
        if session.place is None and session.trashed and self.chance.random() < 0.3:
            method = "session/purge"
        elif session.place is None and self.chance.random() < 0.6:
            method = "session/create"
        else:
            method = pick(sorted(self.draws))
        if session.place is None and method == "session/close":
            # Of a session that somebody looks for in vain just now it may say so.
            method = "append"
        return method, self.draws[method](session)

    def create(self, _session: Imagined) -> dict[str, Any]:
        chance = self.chance
        persist = chance.choice(["immediate", "on_assistant", "never"])
        tags = chance.sample(TAGS, 2)
        return {
            "cwd": "/p",
            "persist": persist,
            "title": chance.choice(TITLES) or None,
            "tags": tags,
        }

    def append(self, session: Imagined) -> dict[str, Any]:
        """Append a message, or take a prompt that waits."""
        role = self.chance.choice(["user", "assistant"])
        message = {"role": role, "content": [{"type": "text", "text": "words " * 9}]}
        entry_id = self.new_id("entry")
        if session.waiting and self.chance.random() < 0.7:
            entry_id = session.waiting[0]
        return {"entry": {"type": "message", "id": entry_id, "message": message}}

    def decide(self, _session: Imagined) -> dict[str, Any]:
        return {"decision": self.new_id("decision")}

    def task(self, _session: Imagined) -> dict[str, Any]:
        decision = self.chance.choice([None, {"decision": self.new_id("decision")}])
        return {"tokens_added": self.chance.choice([0, 7, 90_000]), "decision": decision}

    def prune(self, _session: Imagined) -> dict[str, Any]:
        return {"max_decisions": self.chance.randrange(3), "force": self.chance.random() < 0.5}

    def queue(self, session: Imagined) -> dict[str, Any]:
        """Queue a prompt, or one again that waits or was taken."""
        prompts = session.remembered.prompts
        prompt_id, kind = self.new_id("prompt"), self.chance.choice(["steer", "follow_up"])
        if prompts and self.chance.random() < 0.3:
            prompt_id, kind = self.chance.choice(sorted(prompts.items()))
        return {"kind": kind, "data": "Go on.", "queue": True, "queue_id": prompt_id}

    def new_id(self, kind: str) -> str:
        self.entries += 1
        return f"{kind}-{self.entries}"

    def update(self, _session: Imagined) -> dict[str, Any]:
        chance = self.chance
        changes = {
            "title": chance.choice(TITLES[:4]),
            "tags": chance.sample(TAGS, 1),
            "persist": "immediate",
        }
        names = chance.sample(sorted(changes), chance.randrange(1, 3))
        return {name: changes[name] for name in names}

    def label(self, session: Imagined) -> dict[str, Any]:
        return {"entry_id": self.node(session), "label": self.chance.choice(["good", "bad", None])}

    def rewind(self, session: Imagined) -> dict[str, Any]:
        return {"to": self.chance.choice([None, self.node(session)])}

    def node(self, session: Imagined) -> str:
        return self.chance.choice(["entry-0", *session.nodes])


def look_at(daemon: Daemon, link: Link, session_id: str) -> tuple[Seen | None, int, list[str]]:
    """Return a session as clients see it, its number of files in the trash, and its queue."""
    folders = [
        path.parent.name
        for path in daemon.profile.glob("*/*.jsonl*")
        if (name := NAME.fullmatch(path.name)) is not None
        and name[1] == session_id
        and ".origin" not in path.suffixes
    ]
    assert not list(daemon.profile.glob("*/*.new"))
    trashed = folders.count("trash")
    files = [folder for folder in folders if folder != "trash"]
    try:
        info: dict[str, Any] = link.ask("session/get", session_id=session_id)["session"]
    except Refused as refused:
        if refused.kind != "session_not_found":
            raise
        assert files == []
        return None, trashed, []
    place = files[0] if files else "memory"
    assert len(files) <= 1
    assert info["archived"] == (place == "archive")
    assert (info["path"] is None) == (place == "memory")
    assert info["persisted"] == (place in {"sessions", "archive"})
    labels = link.ask("session/labels", session_id=session_id)["labels"]
    rows = link.ask("session/path", session_id=session_id)["entries"]
    path = [row for row in rows if row["entry"]["type"] == "message"]
    state = link.ask("session/get", session_id=session_id)["state"]
    nodes = link.ask("session/tree", session_id=session_id)["nodes"]
    assert info["message_count"] == len(path)
    seen = Seen(
        place,
        info["title"],
        tuple(info["tags"]),
        tuple(row["entry"]["id"] for row in path),
        len(nodes),
        tuple((row["entry_id"], row["label"]) for row in labels),
        Remembered.seen(state),
    )
    queue = link.ask("session/queue", session_id=session_id)["waiting"]
    return seen, trashed, [one["queue_id"] for one in queue]


def check_lists(link: Link, sessions: dict[str, Imagined]) -> None:
    """Every filter of a list, and every way to name a session."""
    there = {name: seen for name, one in sessions.items() if (seen := one.seen) is not None}

    def listed(**filters: Any) -> list[str]:
        rows = link.ask("session/list", limit=3, **filters)
        found = rows["sessions"]
        while rows["next_cursor"] is not None:
            rows = link.ask("session/list", limit=3, **filters, cursor=rows["next_cursor"])
            found += rows["sessions"]
        assert rows["unreadable"] == []
        for row in found:
            seen = there[row["id"]]
            assert (row["title"], tuple(row["tags"])) == (seen.title, seen.tags)
            assert row["message_count"] == len(seen.path)
        return sorted(row["id"] for row in found)

    for drafts in (False, True):
        for archived in (False, True, None):
            expected = sorted(
                name
                for name, seen in there.items()
                if (drafts or seen.place != "pending")
                and archived in {None, seen.place == "archive"}
            )
            assert listed(drafts=drafts, archived=archived) == expected
    for tag in TAGS:
        expected = sorted(name for name, seen in there.items() if tag in seen.tags)
        assert listed(drafts=True, archived=None, tags=[tag]) == expected
    for part in ("CLOCK", "%", "_"):
        expected = sorted(
            name for name, seen in there.items() if part.casefold() in (seen.title or "").casefold()
        )
        assert listed(drafts=True, archived=None, title=part, sort="message_count") == expected
    for name in there:
        assert link.ask("session/resolve", ref=name)["session"]["id"] == name


def outcomes(
    burst: list[tuple[str, Request]], sessions: dict[str, Imagined], told: dict[int, str | None]
) -> tuple[dict[str, list[Imagined]], dict[str, set[str]]]:
    """Return what each session may be after a burst, and the prompts that it has for sure.

    A session is as after every request that was answered, or a later one. A prompt is stored apart
    from its session: the answer to a later request does not prove that the prompt is there.
    """
    possible = {name: [one] for name, one in sessions.items()}
    sure = {name: set(one.remembered.prompts) for name, one in sessions.items()}
    for number, (name, one) in enumerate(burst, 1000):
        before = possible[name][-1]
        after, refusal = before.after(one)
        # Files are removed one by one: a daemon that is killed leaves some of them.
        left = range(before.trashed - 1, after.trashed, -1)
        possible[name] += [replace(before, trashed=count) for count in left] + [after]
        if number in told:
            assert told[number] == refusal, (name, one)
            possible[name] = [after]
            if one[0] == "session/signal" and refusal is None:
                sure[name].add(one[1]["queue_id"])
        elif one[0] == "session/update":
            # The prompts of a session in memory may be on their way to the disk.
            sure[name].clear()
    return possible, sure


def test_a_purge_that_a_kill_cut_off_may_have_removed_some_files() -> None:
    burst: list[tuple[str, Request]] = [("a", ("session/purge", {}))]
    cases: list[tuple[dict[int, str | None], list[int]]] = [({}, [3, 2, 1, 0]), ({1000: None}, [0])]
    for told, counts in cases:
        possible, _ = outcomes(burst, {"a": Imagined(trashed=3)}, told)
        assert [one.trashed for one in possible["a"]] == counts


@pytest.mark.parametrize("seed", seeds(3))
def test_sessions_are_what_the_requests_make_of_them(daemon: Daemon, seed: int) -> None:
    chance = random.Random(seed)
    requests = Requests(chance)
    sessions = {name: Imagined() for name in IDS}
    link = daemon.connect()
    for _ in range(ROUNDS):
        burst = requests.burst(sessions)
        link.send(
            b"".join(
                request(number, method, session_id=name, **params)
                for number, (name, (method, params)) in enumerate(burst, 1000)
            )
        )
        ids = set(range(1000, 1000 + len(burst)))
        end = chance.choice([None, None, signal.SIGKILL, signal.SIGTERM])
        answers: list[dict[str, Any]] = []
        if end is signal.SIGKILL:
            answers = link.answers(chance.sample(sorted(ids), chance.randrange(len(ids))))
            daemon.end(end)
        answers += link.answers(ids - {one["id"] for one in answers})
        # The kind of the error of each request; None for a result.
        told = {one["id"]: one.get("error", {}).get("data", {}).get("kind") for one in answers}
        if end is None:
            assert told.keys() == ids
        if end is signal.SIGTERM:
            assert daemon.end(end) == 0
        possible, sure = outcomes(burst, sessions, told)
        if end is not None:
            link.close()
            daemon.start()
            link = daemon.connect()
            possible = {name: [one.after_kill() for one in some] for name, some in possible.items()}
        for name in IDS:
            *seen, waiting = look_at(daemon, link, name)
            fitting = [
                one
                for one in possible[name]
                if [one.seen, one.trashed] == seen and one.may_wait(waiting, sure[name])
            ]
            assert fitting, (name, seen, waiting, sure[name], possible[name], burst)
            sessions[name] = fitting[0].after_look(waiting)
        check_lists(link, sessions)
    link.close()
