"""An agent, whole and small, that keeps its conversation in a session of sessiond.

    agent.py SESSION [--cwd FOLDER] [--name NAME]

OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL name the model: any server of streaming chat
completions. Prompts come from any client, through the queue of the session:

    sessiond call session/signal '{"session_id": SESSION, "kind": "follow_up", "queue": true, "data": "Hi"}'

`kind` "steer" is taken before the next request to the model, and a signal of kind "abort" ends the
turn. Any number of agents may work on one session: a lease on the head lets one of them work at a
time, and when an agent is killed, the next one finishes the turn. The agent holds no log: what it
knows, it reads from the daemon when its turn begins.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import anyio

from model import Answer, Model, ModelError
from sessiond_client import (
    Asked,
    Client,
    ConnectionLost,
    LeaseLost,
    Offer,
    RpcError,
    Signal,
    Subscription,
    Summarize,
    Synced,
    Timeout,
    connect,
)
from sessiond_client.results import Prompt
from tools import TOOLS, run_tool

LEASE_WAIT_MS = 600_000
SUMMARY_SECONDS = 150
LAST_WORD_SECONDS = 5


class Agent:
    """One agent on the head `main` of a session."""

    def __init__(self, client: Client, session_id: str, model: Model, tool_seconds: float) -> None:
        self.client = client
        self.session_id = session_id
        self.model = model
        self.tool_seconds = tool_seconds
        self.messages: list[Any] = []  # the context that the model saw last
        self.leaf_id: str | None = None
        self.turn = anyio.CancelScope()
        self.wake = anyio.Event()

    async def run(self) -> None:
        """Work on the session until cancelled."""
        async with (
            self.client.subscribe(self.session_id, signals=True) as events,
            self.client.offer(summarize=["compaction"]) as offer,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(self.listen, events)
            tasks.start_soon(self.summarize, offer)
            while True:
                self.wake = anyio.Event()
                await self.work()
                await self.rest()
                await self.wake.wait()

    async def listen(self, events: Subscription) -> None:
        """Wake the agent for a prompt, and end its turn when a client says so."""
        async for event in events:
            match event:
                case Signal(kind="abort"):
                    self.turn.cancel()
                case Signal(queue_id=str()) | Synced():  # Synced: a signal may have been missed
                    self.wake.set()
                case _:
                    pass

    async def show(self, state: str) -> None:
        """Tell the other clients of the session what this agent does."""
        await self.client.presence(self.session_id, state=state)

    async def rest(self) -> None:
        """Be idle, and tell which context this agent knows, by the context's SHA-256."""
        messages = await self.context()
        text = json.dumps(messages, ensure_ascii=False, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()
        data = {"leaf_id": self.leaf_id, "context": digest}
        await self.client.presence(self.session_id, state="idle", data=data)

    # -- turns ------------------------------------------------------------------------------

    async def work(self) -> None:
        """Take the lease and finish turns, as long as there is something to do."""
        while await self.is_unfinished() or await self.client.queue(self.session_id):
            try:
                async with self.client.lease(self.session_id, wait_ms=LEASE_WAIT_MS) as lease:
                    while await self.is_unfinished() or await self.take_prompt(lease.id):
                        await self.finish_turn(lease.id)
            except (LeaseLost, ConnectionLost):
                continue  # what was stored, is stored: look again
            except RpcError as error:
                if error.kind not in {"lease_lost", "lease_held"}:
                    raise

    async def is_unfinished(self) -> bool:
        """Tell whether the newest turn waits for an answer, be it the turn of a killed agent."""
        page = await self.client.turns(self.session_id, view="agent", limit=1, from_end=True)
        return any(turn.status in {"pending", "streaming"} for turn in page.turns)

    async def take_prompt(self, lease_id: str, kind: str | None = None) -> bool:
        """Move the next prompt from the queue to the session; False if none waits."""
        for prompt in await self.client.queue(self.session_id):
            if kind in {None, prompt.kind}:
                entry = {"type": "message", "id": prompt.queue_id, "message": user_message(prompt)}
                await self.client.append(self.session_id, entry=entry, lease_id=lease_id)
                return True
        return False

    async def finish_turn(self, lease_id: str) -> None:
        """Ask the model and run its tools until it has nothing more to run."""
        await self.show("thinking")
        with anyio.CancelScope() as self.turn:
            while await self.step(lease_id):
                pass
        if self.turn.cancelled_caught and await self.is_unfinished():
            await self.append(lease_id, Answer().message("aborted"))
        if (await self.client.usage(self.session_id)).should_compact:
            await self.compact(lease_id)

    async def step(self, lease_id: str) -> bool:
        """Ask the model once, store the answer, run its tools; return whether the turn goes on."""
        while await self.take_prompt(lease_id, "steer"):
            pass
        answer = Answer()
        try:
            async for text in self.model.stream(await self.context(), TOOLS, answer):
                with contextlib.suppress(ConnectionLost):  # a signal is never sent twice
                    await self.client.signal(self.session_id, "delta", data={"text": text})
        except ModelError as error:
            await self.append(lease_id, answer.message("error", str(error)))
            return False
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(LAST_WORD_SECONDS, shield=True):
                await self.append(lease_id, answer.message("aborted"))
            raise
        await self.append(lease_id, answer.message("toolUse" if answer.calls else "stop"))
        for call in answer.calls:
            await self.show("executing")
            await self.append(lease_id, await run_tool(call, self.tool_seconds))
        await self.show("thinking")
        return bool(answer.calls)

    async def compact(self, lease_id: str) -> None:
        """Have the context made smaller, by a summary that an agent of the session writes."""
        await self.show("compacting")
        # Without a summary the context stays as it is, and the next turn ends with another try.
        with contextlib.suppress(RpcError, ConnectionLost, Timeout):
            await self.client.compact(self.session_id, lease_id=lease_id, timeout=SUMMARY_SECONDS)

    async def context(self) -> list[Any]:
        """Return what the model sees; of what the agent holds already, nothing travels again."""
        known = {"leaf_id": self.leaf_id, "count": len(self.messages)}
        new = await self.client.build_context(
            self.session_id, known=known, shape="openai", repair=True, include=["system"]
        )
        self.messages[new.unchanged :] = new.messages
        self.leaf_id = new.leaf_id
        return self.messages

    async def append(self, lease_id: str, message: dict[str, Any]) -> None:
        """Store a message under the lease, once, whatever happens to the connection."""
        await self.client.append(self.session_id, message=message, lease_id=lease_id)

    # -- summaries --------------------------------------------------------------------------

    async def summarize(self, offer: Offer) -> None:
        """Write summaries when the daemon asks for them."""
        async with anyio.create_task_group() as tasks:
            async for asked in offer:
                tasks.start_soon(self.write_summary, asked)

    async def write_summary(self, asked: Asked) -> None:
        """Answer one request for a summary with the words of the model."""
        with asked, anyio.CancelScope() as scope:
            asked.on_withdrawn(scope.cancel)
            if isinstance(asked.about, Summarize):
                answer = Answer()
                prompt = [{"role": "user", "content": asked.about.prompt}]
                try:
                    async for _ in self.model.stream(prompt, [], answer):
                        pass
                    asked.answer(answer.text)
                except (ModelError, ValueError):
                    asked.pass_on()


def user_message(prompt: Prompt) -> dict[str, Any]:
    """Return a queued prompt as the message of a user."""
    text = prompt.data if isinstance(prompt.data, str) else json.dumps(prompt.data)
    return {"role": "user", "content": text}


async def main() -> None:
    """Join the session, or make it, and work until interrupted."""
    parser = argparse.ArgumentParser(description="An agent whose session is kept by sessiond.")
    parser.add_argument("session", help="id of the session: 8 to 128 of A-Z a-z 0-9 _ -")
    parser.add_argument("--cwd", default=str(Path.cwd()), help="folder of a new session")
    parser.add_argument("--name", default="agent", help="name among the clients of the session")
    parser.add_argument("--tool-seconds", type=float, default=30, help="how long a tool may run")
    parser.add_argument("--socket", help="socket of the daemon (default: the user's daemon)")
    options = parser.parse_args()
    model = Model(
        os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
        os.environ.get("OPENAI_MODEL", "default"),
        os.environ.get("OPENAI_API_KEY", ""),
    )
    async with connect(options.socket, client_id=options.name) as client:
        await client.create(
            options.cwd, session_id=options.session, if_exists="open", persist="immediate"
        )
        await Agent(client, options.session, model, options.tool_seconds).run()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(main)
