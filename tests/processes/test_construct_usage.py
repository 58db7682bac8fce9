"""The usage that Construct's documents promise, walked from start to end, with a restart and kills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond_client import BlockingClient, RpcError, connect_blocking
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.walk import PATIENT
from tests.processes.usages.construct import (
    CODE,
    FILE,
    TOOL,
    FrontEnd,
    answered,
    asked,
    blocks_of,
)

pytestmark = pytest.mark.slow

Json = Any
SAMPLES = Path(__file__).parents[1] / "samples" / "construct"
STATE: dict[str, Json] = {
    "settings": {"theme": "dark", "fontSize": 13.50},
    "context": {"last_project": "shop", "mode": "build"},
    "hooks": {"before_write": {"command": "fmt"}},
}


def test_the_usage_of_construct(daemon: Daemon, tmp_path: Path) -> None:
    """Rows 4, 24, 28, 33, 40, 43 to 45, 71, 72, 125, 130, 131, 144, 145, 147 to 149, 166 to 170."""
    with connect_blocking(daemon.socket_path, **PATIENT) as client:
        walk = Walk(daemon, client, tmp_path)
        walk.scopes_have_one_session_each()
        walk.the_state_folder_is_taken_over()
        with client.subscribe(walk.session_id, after=0, signals=True) as events:
            walk.front = FrontEnd(client, walk.session_id, events)
            walk.a_turn_is_dispatched_streamed_and_done()
            walk.a_kill_leaves_a_turn_pending_and_the_loop_goes_on()
            walk.a_run_that_fails_is_an_error()
        walk.both_views_are_of_one_run()
        walk.the_project_is_switched_and_nothing_is_lost()
        walk.the_state_is_there_after_kills_and_a_restart()
        walk.sessions_go_out_as_documents_and_come_back()
        walk.sessions_of_construct_come_in()


class Walk:
    """A daemon, the front end's client, and two projects."""

    front: FrontEnd

    def __init__(self, daemon: Daemon, client: BlockingClient, folder: Path) -> None:
        self.daemon = daemon
        self.client = client
        self.folder = folder
        self.session_id = ""
        self.projects = [str(folder / name) for name in ("shop", "blog")]
        for project in self.projects:
            Path(project).mkdir()

    def kill(self) -> None:
        self.daemon.kill()
        self.daemon.start()

    def statuses(self) -> list[str]:
        return [turn.status for turn in self.client.turns(self.session_id).turns]

    def loop(self) -> BlockingClient:
        """Return the client of an agent's loop, to be used in a `with`."""
        return connect_blocking(self.daemon.socket_path, client_id="loop", **PATIENT)

    def scopes_have_one_session_each(self) -> None:
        """Rows 24, 40, 44: one session for everything, for an assistant, for a project."""
        client = self.client
        everything = client.scope_resolve("global").session
        assistant = client.scope_resolve("assistant", agent="general").session
        made = client.scope_resolve("project", project=self.projects[0], agent="general")
        self.session_id = made.session.id
        assert len({everything.id, assistant.id, self.session_id}) == 3
        assert (made.created, made.session.agent) == (True, "general")
        self.kill()
        again = client.scope_resolve("project", project=self.projects[0], agent="general")
        assert (again.created, again.session.id) == (False, self.session_id)
        assert client.scope_resolve("global").session.id == everything.id

    def the_state_folder_is_taken_over(self) -> None:
        """Rows 145, 167: each file is a namespace; credentials are stored anew, encrypted."""
        client, folder = self.client, self.folder / "state"
        folder.mkdir()
        for name, content in STATE.items():
            (folder / f"{name}.json").write_text(json.dumps(content))
        (folder / "credentials.json").write_text('{"api":"cipher"}')
        loaded = client.state_load(str(folder))
        assert {one.namespace for one in loaded.loaded} == set(STATE)
        assert [Path(one.path).name for one in loaded.problems] == ["credentials.json"]
        client.secret_set("credentials", "api", "sk-of-construct")

    def a_turn_is_dispatched_streamed_and_done(self) -> None:
        """Rows 71, 72, 125, 130, 131, 168, 170: pending, streaming by presence, done."""
        client, session_id = self.client, self.session_id
        ask = asked("turn-1", "Build a login page", FILE, at="2026-03-29T10:00:01Z")
        client.append(session_id, entries=[ask])
        assert self.statuses() == ["pending"]
        with self.loop() as loop:
            lease = loop.acquire(session_id, 60_000)
            with pytest.raises(RpcError) as taken:
                client.append(session_id, message={"role": "user", "content": "x"})
            assert taken.value.kind == "lease_held"
            loop.presence(session_id, state="streaming")
            assert self.statuses() == ["streaming"]
            for delta in ("Do", "ne."):
                loop.signal(session_id, "delta", data={"turn": "turn-1", "text": delta})
            heard = self.front.look()
            assert "".join(one.data["text"] for one in heard) == "Done."
            # Whoever comes late sees what has come so far.
            (turn,) = client.turns(session_id).turns
            assert blocks_of(turn) == (ask["blocks"], [{"type": "text", "content": "Done."}])
            end = answered("Done.", TOOL, CODE, status="done", at="2026-03-29T10:00:09Z")
            loop.append(session_id, entries=[end], lease_id=lease.lease_id)
            loop.release(session_id, lease.lease_id)
        self.front.look()
        (turn,) = client.turns(session_id).turns
        assert turn.status == "done"
        assert blocks_of(turn) == (
            ask["blocks"],
            [TOOL, CODE, {"type": "text", "content": "Done."}],
        )
        info = client.get(session_id)
        assert (info.status, info.turn_count) == ("done", 1)
        assert (info.started_at, info.ended_at) == (turn.timestamp, "2026-03-29T10:00:09Z")

    def a_kill_leaves_a_turn_pending_and_the_loop_goes_on(self) -> None:
        """Row 71: nothing of streaming is stored; a retried answer is stored once."""
        client, session_id = self.client, self.session_id
        ask = asked("turn-2", "And a logout?", at="2026-03-29T10:02:00Z")
        client.append(session_id, entries=[ask])
        with self.loop() as loop:
            loop.presence(session_id, state="thinking")
            assert self.statuses() == ["done", "streaming"]
            self.kill()
        assert self.statuses() == ["done", "pending"]
        assert client.get(session_id).status == "active"
        end = answered("Done too.", status="done", at="2026-03-29T10:02:05Z")
        with self.loop() as loop:
            loop.append(session_id, entries=[end], idempotency_key="end-of-turn-2")
            self.kill()
            loop.append(session_id, entries=[end], idempotency_key="end-of-turn-2")
        assert self.statuses() == ["done", "done"]
        self.front.look()

    def a_run_that_fails_is_an_error(self) -> None:
        """Rows 43, 170: the status follows the last turn until one is set, and again behind that."""
        client, session_id = self.client, self.session_id
        ask = asked("turn-3", "Deploy", at="2026-03-29T10:04:00Z")
        fault = {"type": "error", "content": "no credit"}
        end = answered("", fault, status="error", at="2026-03-29T10:04:01Z")
        client.append(session_id, entries=[ask, end])
        assert client.get(session_id).status == "error"
        client.update(session_id, status="done")
        assert client.get(session_id).status == "done"
        client.update(session_id, status=None)
        assert client.get(session_id).status == "error"
        self.front.look()

    def both_views_are_of_one_run(self) -> None:
        """Row 168: the chat has blocks, the agent has times, usage and status, of the same turns."""
        client, session_id = self.client, self.session_id
        chat = client.turns(session_id).turns
        agent = client.turns(session_id, view="agent").turns
        assert [one.id for one in chat] == [one.id for one in agent]
        assert [one.id for one in chat] == ["turn-1", "turn-2", "turn-3"]
        assert [one.status for one in chat] == [one.status for one in agent]
        ends = [(one.started_at or "", one.ended_at or "") for one in agent]
        assert [(begin[14:19], end[14:19]) for begin, end in ends] == [
            ("00:01", "00:09"),
            ("02:00", "02:05"),
            ("04:00", "04:01"),
        ]
        assert [one.usage and one.usage.input_tokens for one in agent] == [40, 40, 40]

    def the_project_is_switched_and_nothing_is_lost(self) -> None:
        """Rows 45, 148: the old project is saved and released, the new one loaded, and back."""
        client, (shop, blog) = self.client, self.projects
        was = client.turns(self.session_id).turns
        there = client.scope_switch(project=blog, agent="general", from_project=shop)
        assert (there.created, there.released) == (True, [self.session_id])
        before = client.state_get("context", "last_project")
        client.state_set("context", "last_project", "blog", expected_revision=before.revision)
        with pytest.raises(RpcError) as stale:
            client.state_set("context", "last_project", "shop", expected_revision=before.revision)
        assert stale.value.kind == "revision_mismatch"
        client.append(there.session.id, message={"role": "user", "content": "A post"})
        self.kill()
        back = client.scope_switch(project=shop, agent="general", from_project=blog)
        assert (back.created, back.session.id) == (False, self.session_id)
        assert client.turns(self.session_id).turns == was
        assert client.get(there.session.id).turn_count == 1

    def the_state_is_there_after_kills_and_a_restart(self) -> None:
        """Rows 28, 144, 147, 149, 166, 169: state, secrets and the index of sessions."""
        client = self.client
        client.state_set("spaces", "one", {"tabs": [1]}, tags=["open"])
        client.state_set("spaces", "two", None)
        client.state_delete("spaces", "two")
        self.kill()
        client.stop()
        self.daemon.restart(None)
        assert [one.key for one in client.state_all("spaces", tags=["open"]).values] == ["one"]
        stored = {one.key: one.value for one in client.state_all("settings").values}
        assert stored == STATE["settings"]
        assert client.state_get("context", "last_project").value == "blog"
        assert client.secret_get("credentials", "api").value == "sk-of-construct"
        rows = {one.id: one for one in client.list(sort="updated_at").sessions}
        row = rows[self.session_id]
        assert (row.agent, row.turn_count, row.status) == ("general", 3, "error")

    def sessions_go_out_as_documents_and_come_back(self) -> None:
        """Rows 4, 33: the turns as one JSON document, which another import makes equal again."""
        client = self.client
        document = json.loads(client.export(self.session_id, format="construct").content or "")
        assert document["agent_id"] == "general"
        told = [blocks_of(one) for one in client.turns(self.session_id).turns]
        assert [(one["request"], one["response"]) for one in document["turns"]] == told
        assert [one["status"] for one in document["turns"]] == ["done", "done", "error"]
        copy = client.import_(content=json.dumps(document)).session
        self.kill()
        assert json.loads(client.export(copy.id, format="construct").content or "") == document
        client.delete(copy.id)
        assert copy.id not in {one.id for one in client.list().sessions}

    def sessions_of_construct_come_in(self) -> None:
        """Row 4: a document of Construct, with its title from the index, goes on here."""
        client, folder = self.client, self.folder / "sessions"
        folder.mkdir()
        for name, file in (("index.json", "index.json"), ("abc123.json", "session.json")):
            (folder / name).write_bytes((SAMPLES / file).read_bytes())
        session = client.import_(path=str(folder / "abc123.json")).session
        assert (session.title, session.agent) == ("Build a login page", "general")
        was = json.loads((SAMPLES / "session.json").read_bytes())
        assert json.loads(client.export(session.id, format="construct").content or "") == was
        ask = asked("turn-2", "Go on.", at="2026-03-30T10:00:00Z")
        client.append(session.id, entries=[ask])
        self.kill()
        now = json.loads(client.export(session.id, format="construct").content or "")
        assert now["turns"][:1] == was["turns"]
        added = now["turns"][1]
        assert (added["request"], added["status"]) == (
            [{"type": "text", "content": "Go on."}],
            "pending",
        )
