"""The usage that Nova's documents promise, walked from start to end, with a restart and a kill."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from sessiond_client import RpcError, connect_blocking
from tests.kit.calls import part_of
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.walk import PATIENT

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[1] / "samples" / "nova" / "state.json"
DECISIONS = "decisions[].decision"


def test_the_usage_of_nova(daemon: Daemon) -> None:
    """Rows 66 to 70, 94, 123, 132, 133, 160 to 163, defects 13 and 14."""
    with connect_blocking(daemon.socket_path, **PATIENT) as client:
        # get_or_create_session without an id: a new session.
        session_id = client.create(
            "/shop", agent="implementer", model="m-1", tags=["feature", "pr"]
        ).session.id

        # Decisions, artifacts, a plan; each is there after a kill.
        client.update(session_id, plan="Add registration, then e-mail verification")
        client.decide(session_id, "Use async/await for I/O", rationale="one event loop")
        daemon.restart(signal.SIGKILL)
        stored = client.call("session/get", session_id=session_id)
        assert part_of(stored["state"], DECISIONS) == ["Use async/await for I/O"]
        # get_or_create_session with an unknown id: an error that lists what is there.
        with pytest.raises(RpcError) as unknown:
            client.open(session_id="11111111-2222-4333-8444-555555555555")
        assert unknown.value.data["kind"] == "session_not_found"
        assert session_id in unknown.value.data["available"]
        client.artifact(session_id, "feature-branch", "refs/heads/feat/register")

        # run_task: the turn and its decision survive a kill, and a retry counts nothing twice.
        task: dict[str, Any] = {"decision": {"decision": "E-mail first"}, "tokens_added": 4200}
        done = client.task(session_id, idempotency_key="turn-1", **task)
        daemon.restart(signal.SIGKILL)
        again = client.task(session_id, idempotency_key="turn-1", **task)
        assert (done.duplicate, again.duplicate) == (False, True)
        assert again.state == done.state
        assert (done.resume, done.state.turn_count, done.state.tokens_used) == (session_id, 1, 4200)
        assert done.context.splitlines()[-1] == "Latest decision: E-mail first"
        client.task(session_id, turns_added=2, tokens_added=-5)
        client.stop()
        daemon.restart(None)
        brief = client.brief(session_id)
        assert (brief.state.turn_count, brief.state.tokens_used, brief.model) == (3, 4200, "m-1")

        # should_prune and compress, twice.
        for round_ in range(2):
            for number in range(11):
                client.decide(session_id, f"decision {round_}.{number}")
            assert client.prune(session_id, dry_run=True).would_prune
            pruned = client.prune(session_id)
            assert (pruned.pruned, len(pruned.state.decisions)) == (True, 10)
        daemon.restart(signal.SIGKILL)
        state = client.call("session/get", session_id=session_id)["state"]
        assert (state["pruned"], state["metrics"]["decision_count"]) == (True, 0)

        # fork_session: it knows what its parent knows, and counts anew.
        child = client.fork(session_id, entries="none", state=True)
        inherited = client.call("session/get", session_id=child.id)["state"]
        assert part_of(inherited, DECISIONS) == part_of(state, DECISIONS)
        assert (inherited["tokens_used"], inherited["turn_count"]) == (4200, 0)
        assert inherited["artifacts"] == {"feature-branch": "refs/heads/feat/register"}
        assert client.brief(session_id).fork_count == 1

        # The state as JSON and back.
        document = json.loads(client.export(child.id, format="nova").content or "")
        copy = client.import_(content=json.dumps(document)).session
        assert json.loads(client.export(copy.id, format="nova").content or "") == document
        sample = client.import_(path=str(SAMPLE)).session
        client.stop()
        daemon.restart(None)
        exported = client.export(sample.id, format="nova").content or ""
        assert json.loads(exported) == json.loads(SAMPLE.read_text())

        # All of them are listed, and cleanup_session removes one.
        assert {one.id for one in client.list().sessions} >= {session_id, child.id, sample.id}
        client.delete(child.id)
        # The copy of the child names the same parent.
        assert client.brief(session_id).fork_count == 1
