"""Stages of a walk through sharur's service: sessions, running turns, and what clients see of them."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from sessiond_client import EntryEvent, Presence, Signal, Synced
from tests.processes.harness.walk import Walk
from tests.processes.harness.walk_stages import restarted
from tests.processes.usages.sharur import CWD, RESULT, SHARUR, USAGE

Json = Any
SAMPLES = Path(__file__).parents[2] / "samples" / "sharur"
FOLLOWS = {
    "idle": {"thinking", "executing", "compacting"},
    "thinking": {"executing", "idle", "aborting", "error", "compacting"},
    "executing": {"thinking", "idle", "aborting", "error", "compacting"},
    "compacting": {"idle", "thinking", "executing", "aborting", "error"},
    "aborting": {"idle"},
    "error": {"idle"},
}


def sharurs_folder_is_a_root(walk: Walk) -> None:
    """Rows 9, 10, 22, 28, 30, 157, 158: the folders of all projects are listed, and read in place."""
    project = walk.folder / "--home-ana-shop--"
    project.mkdir()
    names = {"sharur": "2026-04-27T14-00-00-000Z", "sharur-branch": "2026-04-28T14-00-00-000Z"}
    for name, time in names.items():
        data = (SAMPLES / f"{name}.jsonl").read_bytes()
        header = data.split(b'"id":"', 1)[1].split(b'"', 1)[0].decode()
        (project / f"{time}_{header}.jsonl").write_bytes(data)
    (root,) = walk.client.catalog_roots(action="add", path=str(walk.folder), kind="sharur")
    assert (root.kind, root.sessions) == ("sharur", 2)
    for session in walk.client.list(root=str(walk.folder)).sessions:
        assert session.agent_program == "sharur"
        walk.follow(session)


def a_session_is_new(walk: Walk) -> None:
    """Rows 2, 6, 11, 21, 23, 24, 154 (NewSession): by an id of the caller, with the first entry's file."""
    client, session_id = walk.client, str(uuid4())
    with walk.refused("session_not_found"):
        client.get(session_id)
    made = client.create(CWD, session_id=session_id, **walk.place)
    assert (made.session.id, made.session.persisted) == (session_id, False)
    walk.begin(made.session)
    with walk.refused("session_exists"):
        client.create(CWD, session_id=session_id)
    assert client.open(session_id=session_id, create=True).id == session_id
    got = client.open(session_id=str(uuid4()), create=True, cwd=CWD)
    assert got.message_total == 0
    with walk.refused("invalid_params"):
        client.open(session_id="../../etc/x", create=True)


def a_prompt_is_answered_by_an_agent(walk: Walk) -> None:
    """Rows 37, 50, 51, 65, 125, 128 to 131 (Prompt): one stream of states, deltas and entries."""
    with (
        walk.another("agent") as agent,
        walk.another("front") as front,
        front.subscribe(walk.session_id, signals=True) as events,
    ):
        with agent.lease(walk.session_id, ttl=60) as lease:
            under: Json = {"lease_id": lease.id}
            agent.presence(walk.session_id, state="thinking", check=True)
            with walk.refused("lease_held") as why:
                front.append(walk.session_id, message=SHARUR.user("me too"))
            assert why["holder"]["client_id"] == "agent"
            walk.say("prompt", SHARUR.user("Fix the retry bug in client.go"), **under)
            agent.update(walk.session_id, auto_title=True)
            for text in ("Look", "ing."):
                agent.signal(walk.session_id, "text_delta", data={"content": text})
            renewed = agent.renew(walk.session_id, lease.id, 60_000)
            assert (renewed.lease_id, renewed.epoch) == (lease.id, lease.epoch)
            args = {"path": "client.go"}
            calls = [
                {"id": "c1", "name": "read", "args": args},
                {"id": "c2", "name": "edit", "args": args},
            ]
            called = SHARUR.assistant("Looking.", *calls)
            walk.say("called", called | {"usage": USAGE}, **under)
            agent.presence(walk.session_id, state="executing", check=True)
            agent.signal(walk.session_id, "tool_output", data={"tool_call_id": "c1"})
            walk.say("read", RESULT | {"toolCallId": "c1", "content": "package client\n"}, **under)
            walk.say("edited", RESULT | {"toolCallId": "c2", "content": "Error: no match"}, **under)
            agent.presence(walk.session_id, state="thinking", check=True)
            walk.say("done", SHARUR.assistant("It is fixed."), **under)
            agent.presence(walk.session_id, state="idle", check=True)
        heard: list[tuple[str, Json]] = []
        for event in events:
            match event:
                case EntryEvent():
                    heard.append(("entry", event.name.type))
                    if event.name.id == walk.ids["done"]:
                        break
                case Signal():
                    heard.append((event.kind, event.data))
                case Presence():
                    heard.append(("state", [one.state for one in event.clients]))
                case _:
                    pass
    assert heard == [
        ("state", ["thinking"]),
        ("entry", "message"),
        ("entry", "session_info"),
        ("text_delta", {"content": "Look"}),
        ("text_delta", {"content": "ing."}),
        ("entry", "message"),
        ("state", ["executing"]),
        ("tool_output", {"tool_call_id": "c1"}),
        ("entry", "message"),
        ("entry", "message"),
        ("state", ["thinking"]),
        ("entry", "message"),
    ]
    assert walk.info.auto_title or walk.info.title == "Fix the retry bug in client.go"
    assert (walk.info.title, walk.info.persisted) == ("Fix the retry bug in client.go", True)
    assert (walk.info.usage or {})["total_tokens"] == 100
    if walk.root is not None:
        assert walk.file().parent == walk.root / "--home-ana-shop--"
        assert re.fullmatch(
            r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-000Z_" + walk.session_id + r"\.jsonl", walk.file().name
        )


def a_turn_is_steered_followed_up_and_aborted(walk: Walk) -> None:
    """Rows 126, 127, 128 (Steer, FollowUp, Abort): signals reach the agent, who appends in order."""
    with (
        walk.another("agent") as agent,
        agent.subscribe(walk.session_id, signals=True) as events,
        agent.lease(walk.session_id, ttl=60) as lease,
    ):
        agent.presence(walk.session_id, state="thinking", check=True)
        for kind in ("follow_up", "steer", "abort"):
            walk.client.signal(walk.session_id, kind, data={"message": f"by {kind}"})
        told = [one for one in islice(events, 4) if isinstance(one, Signal)]
        assert [one.kind for one in told] == ["follow_up", "steer", "abort"]
        said = {one.kind: one.data["message"] for one in told}
        walk.say("steered", SHARUR.user(said["steer"]), lease_id=lease.id)
        walk.say("followed up", SHARUR.user(said["follow_up"]), lease_id=lease.id)
        agent.presence(walk.session_id, state="aborting", check=True)
        agent.presence(walk.session_id, state="idle", check=True)
    assert walk.texts()[-2:] == ["by steer", "by follow_up"]


def a_client_that_leaves_ends_its_turn(walk: Walk) -> None:
    """Rows 127, 131: the lease ends with its connection, and the session is free for the next turn."""
    with walk.another("agent") as agent:
        lease = agent.acquire(walk.session_id, 3_600_000)
        agent.presence(walk.session_id, state="executing", check=True)
        with walk.refused("lease_held"):
            walk.client.append(walk.session_id, message=SHARUR.user("x"))
    with walk.client.lease(walk.session_id, wait_ms=60_000) as next_turn:
        walk.say("free again", SHARUR.user("free again"), lease_id=next_turn.id)
    assert walk.client.presence(walk.session_id) == []
    with walk.refused("lease_lost"):
        walk.client.append(walk.session_id, message=SHARUR.user("late"), lease_id=lease.lease_id)


def states_follow_the_table(walk: Walk) -> None:
    """Row 128: of all pairs of states those of sharur's table are taken, and the same one again."""
    for first, allowed in FOLLOWS.items():
        for second in FOLLOWS:
            walk.client.presence(walk.session_id, state=first)
            if second in allowed or second == first:
                walk.client.presence(walk.session_id, state=second, check=True)
                continue
            with walk.refused("invalid_params") as why:
                walk.client.presence(walk.session_id, state=second, check=True)
            assert (why["state"], set(why["allowed"])) == (first, allowed)
    walk.client.presence(walk.session_id, state=None)


def events_are_replayed_and_sessions_are_apart(walk: Walk) -> None:
    """Rows 130, 131 (StreamEvents): a snapshot and a replay, and nothing of another session."""
    client = walk.client
    other = client.create(CWD, **walk.place).session
    client.append(other.id, message=SHARUR.user("elsewhere"))
    walk.follow(client.get(other.id))
    seq = walk.info.seq
    assert seq is not None
    with client.subscribe(walk.session_id, after=0) as events:
        replayed = [*islice(events, seq + 1)]
        assert isinstance(replayed[-1], Synced)
        client.append(other.id, message=SHARUR.user("elsewhere again"))
        walk.say("live", SHARUR.user("here"))
        live = next(events)
        assert isinstance(live, EntryEvent)
        assert live.entry["id"] == walk.ids["live"]
    with walk.refused("precondition_failed") as why:
        client.append(
            walk.session_id,
            message=SHARUR.user("stale"),
            expected={"leaf_id": walk.ids["free again"]},
        )
    assert why["missed"] == [walk.ids["live"]]


def the_session_is_configured(walk: Walk) -> None:
    """Rows 52, 53, 107, 114, 134 to 136, 177 (ConfigureSession): at once, and not under another's turn."""
    client = walk.client
    settings: Json = {"model": "m-2", "provider": "p", "thinking_level": "high"}
    more: Json = {"system_prompt": "Be brief.", "dry_run": True}
    more |= {"compaction": {"preset": "sharur", "keep_recent_tokens": 9000}}
    if walk.root is not None:  # sharur's file records model and level as entries of their own
        entries = [
            {"type": "model_change", "model_id": "m-2", "provider": "p"},
            {"type": "thinking_level_change", "thinking_level": "high"},
        ]
        client.append(walk.session_id, entries=entries)
        assert client.usage(walk.session_id).reserve == 2048
        client.update(walk.session_id, **more)
    else:
        with walk.another("agent") as agent, agent.lease(walk.session_id) as lease:
            with walk.refused("lease_held"):
                client.update(walk.session_id, **settings)
            agent.update(walk.session_id, **settings, **more, lease_id=lease.id)
    restarted(walk)
    found = walk.info
    assert {name: getattr(found, name) for name in (settings | more)} == settings | more
    built = client.build_context(walk.session_id, include=["system"])
    assert built.system == "Be brief."
    assert client.usage(walk.session_id).reserve == 2048


def state_and_messages_are_read(walk: Walk) -> None:
    """Rows 30, 35, 42, 60, 65, 106, 152 (GetState, GetMessages): with ids, in full, and counted."""
    client = walk.client
    page = client.entries(walk.session_id, types=["message"]).entries
    assert [row.entry["message"]["content"] for row in page if row.entry["message"]["content"]]
    assert {walk.ids["prompt"], walk.ids["live"]} <= {row.entry["id"] for row in page}
    found = client.session_stats(walk.session_id)
    assert found.whole.messages.total == len(page) == walk.info.message_total
    assert (found.whole.tool_calls, found.whole.messages.tool) == (2, 2)
    assert found.whole.usage.total_tokens == 100
    files = found.whole.files
    # By sharur's rules a file that was written is one that was read, too.
    assert (files.read, files.modified) == (["client.go"], ["client.go"])
    client.close(walk.session_id)
    assert client.stats()["sessions_open"] >= 1
