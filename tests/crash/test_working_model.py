"""Random calls of agents beside the requests of the service model: working state and queues.

Law: after each call, restart and power cut every acknowledged decision, artifact, task and prune is
stored once, `session/get` shows the state that they make, and every acknowledged prompt waits once
until its agent has taken the prompt.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.crash.test_service_model import FAULTS, WHICH, Known, Life, append
from tests.kit.remembered import Remembered

TOKENS = st.sampled_from([0, 7, 90_000, 160_000])
NAMES = st.sampled_from(["plan", "branch"])
PATHS = st.sampled_from(["docs/plan.md", "refs/heads/fix", None])
CALLS = (
    st.fixed_dictionaries({"method": st.just("session/decide")})
    | st.fixed_dictionaries({"method": st.just("session/artifact"), "name": NAMES, "path": PATHS})
    | st.fixed_dictionaries(
        {"method": st.just("session/task"), "tokens_added": TOKENS, "decision": st.booleans()}
    )
    | st.fixed_dictionaries(
        {"method": st.just("session/prune")},
        optional={"max_decisions": st.integers(0, 2), "force": st.booleans()},
    )
)


class WorkingLife(Life):
    """A home in which agents work as well."""

    def __init__(self) -> None:
        self.remembered: dict[str, Remembered] = {}
        super().__init__()

    # -- what holds ------------------------------------------------------------------------

    def settle(self, session_id: str, known: Known) -> None:
        super().settle(session_id, known)
        self.check(session_id, known)

    def look_after_the_cut(self, session_id: str, known: Known) -> None:
        super().look_after_the_cut(session_id, known)
        if known.gone is False:
            self.check(session_id, known)

    def check(self, session_id: str, known: Known) -> None:
        """Check that the session shows what its agent was told."""
        expected = self.of(session_id)
        assert self.state(session_id) == expected.state()
        assert self.waiting(session_id) == expected.waiting(known.ids)

    def of(self, session_id: str) -> Remembered:
        return self.remembered.setdefault(session_id, Remembered())

    def state(self, session_id: str) -> Any:
        shown = self.ask("session/get", session_id=session_id)["state"]
        assert (shown["last_pruned_at"] is not None) is shown["pruned"]
        return Remembered.seen(shown)

    def waiting(self, session_id: str, **params: Any) -> list[str]:
        answer = self.ask("session/queue", session_id=session_id, **params)
        return [one["queue_id"] for one in answer["waiting"]]

    def insist(self, fault: tuple[int, int] | None, call: tuple[str, dict[str, Any]]) -> Any:
        """Return the answer to a call, which is sent again if the disk refused the call."""
        (answer,) = self.attempt(fault, call)
        if answer is None:
            (answer,) = self.attempt(None, call)
        return answer

    # -- what is asked ---------------------------------------------------------------------

    @initialize(kept=st.sampled_from(["on_assistant", "immediate"]))
    def begin(self, kept: str) -> None:
        """Begin with a session on the disk and one in memory, each with prompts."""
        for persist in (kept, "never"):
            super().create(None, persist)
            for kind in ("follow_up", "steer"):
                self.queue_a_prompt(len(self.sessions) - 1, None, kind)

    @precondition(lambda self: sum(known.gone is False for known in self.sessions.values()) < 2)
    @rule(fault=FAULTS, persist=st.sampled_from(["on_assistant", "immediate", "never"]))
    def create(self, fault: tuple[int, int] | None, persist: str) -> None:
        super().create(fault, persist)

    @precondition(Life.any_writable)
    @rule(
        which=WHICH,
        fault=FAULTS,
        drawn=st.lists(CALLS, min_size=1, max_size=4),
        again=st.booleans(),
    )
    def remember(
        self,
        which: int,
        fault: tuple[int, int] | None,
        drawn: list[dict[str, Any]],
        again: bool,
    ) -> None:
        """Change the working state by several calls at once; perhaps send all of them again."""
        session_id, known = self.pick(which)
        calls = [self.change_of(session_id, one) for one in drawn]
        answers = self.attempt(fault, *calls)
        stored = [self.took(session_id, *one) for one in zip(calls, answers, strict=True)]
        self.take_new(session_id, known, sum(stored))
        if not again:
            return
        new = 0
        repeated = self.attempt(None, *calls)
        for call, answer, entries in zip(calls, repeated, stored, strict=True):
            assert answer["duplicate"] is (entries > 0)
            new += 0 if entries else self.took(session_id, call, answer)
        self.take_new(session_id, known, new)

    def change_of(self, session_id: str, drawn: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return a call that changes the working state, with a key."""
        params = {name: value for name, value in drawn.items() if name != "method"}
        decided = self.new_id("decision")
        if drawn["method"] == "session/decide":
            params["decision"] = decided
        elif drawn["method"] == "session/task":
            params["decision"] = {"decision": decided} if params["decision"] else None
        where = {"session_id": session_id, "idempotency_key": self.new_id("key")}
        return drawn["method"], params | where

    def took(self, session_id: str, call: tuple[str, dict[str, Any]], answer: Any) -> int:
        """Return how many entries store a call; none if the disk refused the call."""
        return 0 if answer is None else self.of(session_id).after(*call)

    def take_new(self, session_id: str, known: Known, entries: int) -> None:
        """Check that so many new entries are stored, and take them in."""
        now = self.stored(session_id)
        assert now[: len(known.ids)] == known.ids
        assert len(now) == len(known.ids) + entries
        known.ids = now
        self.settle(session_id, known)

    @precondition(Life.any_alive)
    @rule(which=WHICH, fault=FAULTS, kind=st.sampled_from(["steer", "follow_up", "other"]))
    def queue_a_prompt(self, which: int, fault: tuple[int, int] | None, kind: str) -> None:
        """Queue a prompt, and queue the prompt again."""
        session_id, known = self.pick(which, writable=False)
        prompt_id = self.new_id("prompt")
        call = self.prompt(session_id, prompt_id, kind)
        answer = self.insist(fault, call)
        assert answer == {"queue_id": prompt_id, "duplicate": False}
        self.of(session_id).prompts[prompt_id] = kind
        assert self.ask(call[0], **call[1])["duplicate"]
        self.settle(session_id, known)

    @precondition(Life.any_writable)
    @rule(which=WHICH, fault=FAULTS, by_append=st.booleans(), undone=st.booleans())
    def take_a_prompt(
        self, which: int, fault: tuple[int, int] | None, by_append: bool, undone: bool
    ) -> None:
        """Take the next prompt, or remove the prompt. A sender retries; perhaps main goes back."""
        session_id, known = self.pick(which)
        expected = self.of(session_id)
        waiting = expected.waiting(known.ids)
        if not waiting:
            return
        prompt_id = waiting[0]
        if not by_append:
            params = {"session_id": session_id, "done": [prompt_id]}
            self.insist(fault, ("session/queue", params))
            del expected.prompts[prompt_id]
            self.settle(session_id, known)
            return
        (answer,) = self.attempt(fault, append(session_id, [prompt_id], "user", None))
        if answer is None:
            known.refused.append([prompt_id])
            return
        known.ids.append(prompt_id)
        self.settle(session_id, known)
        if undone:
            self.ask("session/branch", session_id=session_id, entry_id=None)
            self.take_new(session_id, known, 1)
        method, params = self.prompt(session_id, prompt_id, expected.prompts[prompt_id])
        assert self.ask(method, **params) == {"queue_id": prompt_id, "duplicate": True}
        self.settle(session_id, known)

    @precondition(Life.any_writable)
    @rule(which=WHICH, fault=FAULTS)
    def promote(self, which: int, fault: tuple[int, int] | None) -> None:
        """Promote a session, in two calls if the disk refuses the first."""
        session_id, known = self.pick(which)
        params = {"session_id": session_id, "persist": "immediate"}
        assert self.insist(fault, ("session/update", params))["session"]["persisted"]
        known.in_memory = False
        self.settle(session_id, known)

    def prompt(self, session_id: str, prompt_id: str, kind: str) -> tuple[str, dict[str, Any]]:
        """Return the call that queues a prompt."""
        asked = {"session_id": session_id, "kind": kind, "data": prompt_id * 9, "queue": True}
        return "session/signal", asked | {"queue_id": prompt_id}


TestWorkingLife = WorkingLife.TestCase
TestWorkingLife.settings = settings(max_examples=8, stateful_step_count=15)


class LongWorkingLife(WorkingLife):
    """A longer run of the model."""


TestLongWorkingLife = pytest.mark.search(LongWorkingLife.TestCase)
TestLongWorkingLife.settings = settings(max_examples=25, stateful_step_count=40)
