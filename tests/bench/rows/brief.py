"""Row 17: a resumed turn that begins with a brief, against one that begins with the whole context.

Both sides end with the newest message. A session of messages has a plan, decisions and turns; a client
resumes an agent with session/brief, or with build_context. Bytes are those of the answer's text that
a model is sent, tokens those of sessiond's estimate.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tests.bench.harness.bench import Bench, Pair, Row, figure
from tests.bench.harness.errors import BenchError
from tests.bench.harness.figures import at_most
from tests.bench.harness.link import Link
from tests.bench.harness.results import Contender, RowResult
from tests.bench.harness.rounds import Entrant, Sample
from tests.bench.harness.servers import SESSIOND, daemon, new_home
from tests.bench.harness.stored import linked, native_file
from tests.bench.harness.workload import SESSION_ID

__all__ = ["ROW"]

ENTRIES, ENTRIES_QUICK = 1000, 200
TURNS = 20
# A token of the estimate is four UTF-16 code units.
TOKEN_UNITS = 4
GOAL = at_most(1 / 10)
WHOLE = Contender("sessiond, the whole context", SESSIOND.version)
PLAN = "Add registration, then e-mail verification; migrations last."


class Briefed(Struct):
    """The part of a brief that a model is sent."""

    context: str


class Built(Struct):
    """The part of a context that a model is sent, and its estimate."""

    messages: list[Raw]
    tokens: int


def told(link: Link, method: str, **more: Any) -> None:
    """Change the working state."""
    link.ask(f"session/{method}", {"session_id": SESSION_ID, **more}, Raw)


def resumed(bench: Bench, entries: int, *, by_brief: bool) -> Sample:
    """Measure what a resumed turn sends to the model."""
    home = new_home(bench.folder)
    linked(native_file(bench.cache, entries), home)
    with daemon(bench.folder, bench.cores.server, home) as ours, ours.connect() as link:
        ours.open(link, SESSION_ID)
        told(link, "update", plan=PLAN)
        for number in range(TURNS):
            told(link, "task", decision={"decision": f"Decision {number} of the agent."})
        built = link.ask("session/build_context", {"session_id": SESSION_ID}, Built)
        if len(built.messages) < entries // 2:
            raise BenchError(f"{len(built.messages)} messages in the context of {entries} entries")
        if by_brief:
            text = link.ask("session/brief", {"session_id": SESSION_ID}, Briefed).context
            sent = msgspec.json.encode(text) + bytes(built.messages[-1])
            tokens = -(-len(sent.decode().encode("utf-16-le")) // 2 // TOKEN_UNITS)
        else:
            built = link.ask("session/build_context", {"session_id": SESSION_ID}, Built)
            sent, tokens = b"".join(map(bytes, built.messages)), built.tokens
    return {"kib": len(sent) / 1024, "tokens": tokens}


def measure(bench: Bench, result: RowResult) -> None:
    """Measure both ways to begin a turn."""
    entries = ENTRIES_QUICK if bench.quick else ENTRIES
    entrants = [
        Entrant("brief", partial(resumed, bench, entries, by_brief=True)),
        Entrant("whole", partial(resumed, bench, entries, by_brief=False)),
    ]
    measured = bench.contest("resume", entrants)
    pair = Pair("brief", "whole", WHOLE)
    case = f"resumed turn, {entries:,} entries"
    for metric in ("kib", "tokens"):
        result.figures.append(figure(measured, pair, metric, case=case, goal=GOAL))


ROW = Row(17, "a resumed turn: brief and newest message, against the whole context", measure)
