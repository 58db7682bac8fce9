"""Offers to the daemon, made again on every connection."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sessiond_client import connect, connect_blocking
from tests.interop.scripted.stage import Peer, Scene, Stage, quiet
from tests.kit.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.both_loops


def offers_twice() -> tuple[Scene, Scene, list[Any]]:
    """Return two scenes: a daemon that asks and gets an answer, and one that gets none."""
    said: list[Any] = []
    about = {"session_id": "s", "entry_id": "e1"}

    def greets(peer: Peer) -> None:
        hello = peer.read("initialize")
        said.append(hello["params"])
        peer.answer(hello, {"capabilities": {"summarize": True, "hooks": ["before_fork"]}})
        peer.say(id=1, method="client/before_fork", params=about)

    def answered(peer: Peer) -> None:
        greets(peer)
        said.append(peer.read()["result"])

    def unanswered(peer: Peer) -> None:
        greets(peer)
        peer.ends()

    return answered, unanswered, said


HELLO = {"capabilities": {"summarize": False, "hooks": ["before_fork"]}}


async def test_an_offer_is_made_on_every_connection(stage: Stage) -> None:
    answered, unanswered, said = offers_twice()
    stage.play(quiet, answered, unanswered)
    async with (
        connect(stage.path) as client,
        client.offer(hooks=["before_fork"]) as offer,
    ):
        (await anext(offer)).veto("no")
        second = await anext(offer)
    assert second.is_withdrawn
    assert said == [HELLO, {"veto": "no"}, HELLO]


def test_an_offer_in_threads_is_made_on_every_connection(stage: Stage) -> None:
    answered, unanswered, said = offers_twice()
    stage.play(quiet, answered, unanswered)
    with (
        connect_blocking(stage.path) as client,
        client.offer(hooks=["before_fork"]) as offer,
    ):
        first = next(offer)
        # Answered by another thread, while this one waits for the next request.
        with ThreadPoolExecutor(1) as pool:
            vetoed = pool.submit(first.veto, "no")
            second = next(offer)
            vetoed.result(PATIENCE_SECONDS)
    assert second.is_withdrawn
    assert said == [HELLO, {"veto": "no"}, HELLO]
