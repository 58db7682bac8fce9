"""`make search PART=fleet`: a year of sessions of five agents changes while lists and searches are asked for.

    python -m tests.fleet --minutes 2 --seed 7     rounds until the time is over, one at least

A round is a fleet of a drawn size, and a real daemon. A thread adds sessions, lets them grow, writes them anew and
deletes them; the daemon is asked meanwhile, and once more when all is quiet.

Law: while sessions change, a session that did not change is listed, and found by each of its words. What is found has
the word before or behind the question, and its snippet shows the word. When all is quiet, lists and searches are exact.

Exit 0 = the law held.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.kit.fleet import Fleet
from tests.kit.link import Link
from tests.kit.patience import PATIENCE_SECONDS, paused
from tests.processes.harness.daemon import Daemon, running

__all__ = ["main"]

BURSTS: Final = 4
CHANGES: Final = 25
ASKED: Final = 25
SHOWN: Final = 10


def main(words: Sequence[str] | None = None) -> int:
    """Run rounds until the time is over; return 1 if the law was broken."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    end, seed = time.monotonic() + options.minutes * 60, options.seed
    while True:
        faults = _round(seed)
        sys.stdout.write(f"fleet, seed {seed}: {len(faults)} faults\n")
        for fault in faults[:SHOWN]:
            sys.stdout.write(f"FAULT: {fault}\n")
        sys.stdout.flush()
        seed += 1
        if faults or time.monotonic() >= end:
            return int(bool(faults))


def _round(seed: int) -> list[str]:
    """Run one daemon beside one fleet; return what was wrong."""
    chance = random.Random(f"round {seed}")
    with TemporaryDirectory(prefix="sd-") as folder:
        place = Path(folder).resolve()
        fleet = Fleet(place / "agents", seed, mean_bytes=chance.choice((2_000, 16_000)))
        fleet.fill(chance.choice((30, 100, 300)))
        with running(Daemon(place / "s", place / "data")) as daemon, daemon.connect() as link:
            for kind, root in fleet.roots.items():
                link.ask("catalog/roots", action="add", path=str(root), kind=kind)
            faults = _quiet(link, fleet)
            with ThreadPoolExecutor(1) as other:
                for _ in range(BURSTS):
                    if faults:
                        break
                    faults += _burst(link, fleet, chance, other)
                    faults += _quiet(link, fleet)
        return faults


def _burst(link: Link, fleet: Fleet, chance: random.Random, other: ThreadPoolExecutor) -> list[str]:
    """Ask while another thread changes some sessions; return what was wrong."""
    before = dict(fleet.sessions)
    taken = {one.id for one in chance.sample([*before.values()], min(CHANGES, len(before) // 2))}
    # A session goes with the sessions that it started.
    taken |= {one.id for one in before.values() if one.parent in taken}
    held = {word: fleet.holders(word) for word in fleet.words}
    calm = before.keys() - taken
    changing = other.submit(_change, fleet, sorted(taken), random.Random(chance.random()))
    asked = chance.sample(fleet.words, ASKED)
    seen = [(word, _search(link, word)) for word in asked]
    listed = _list(link)
    changing.result()
    faults = [f"{one} is calm and not listed" for one in calm - listed]
    for word, hits in seen:
        now, found = fleet.holders(word), {hit["session_id"] for hit in hits}
        lost = {one for one in held[word] if one in calm} - found
        faults += [f"{word} is in {one}, which is calm, and not found" for one in lost]
        # A session may have had the word in between, too.
        others = (found & calm) - held[word].keys() - now.keys()
        faults += [f"{word} is found in {one}, which never had the word" for one in others]
        faults += _shown(fleet, word, hits)
    return faults


def _change(fleet: Fleet, taken: Sequence[str], chance: random.Random) -> None:
    """Change these sessions, and add others."""
    for session_id in taken:
        session = fleet.sessions.get(session_id)
        words = chance.choices(fleet.words, k=chance.randrange(4))
        act = chance.choice(("append", "append", "rewrite", "remove", "add"))
        if act == "add" or session is None:
            fleet.add(words)
        elif act == "remove":
            fleet.remove(session)
        else:
            (fleet.append if act == "append" else fleet.rewrite)(session, words)
        paused(chance, 0, 0.02)


def _quiet(link: Link, fleet: Fleet) -> list[str]:
    """Return what of a fleet that has come to rest is missing, or too much, in lists and searches."""
    until = time.monotonic() + PATIENCE_SECONDS
    # What was written a moment ago may be looked at once more; a fault is what stays.
    while (faults := _wrong(link, fleet)) and time.monotonic() < until:
        time.sleep(0.5)
    return faults


def _wrong(link: Link, fleet: Fleet) -> list[str]:
    listed = _list(link)
    there = fleet.sessions.keys()
    faults = [f"{one} is there and not listed" for one in there - listed]
    faults += [f"{one} is listed and not there" for one in listed - there]
    for word in fleet.words:
        hits = _search(link, word)
        # A header has the title, which is the first prompt.
        found = Counter(hit["session_id"] for hit in hits if hit["entry_id"] is not None)
        if found != fleet.holders(word):
            faults.append(f"{word} is found in {dict(found)}, and is in {fleet.holders(word)}")
        faults += _shown(fleet, word, hits)
    return faults


def _shown(fleet: Fleet, word: str, hits: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"the snippet of {hit['session_id']} does not show {word}: {hit['snippet']!r}"
        for hit in hits
        if not fleet.has(hit["snippet"], word)
    ]


def _search(link: Link, word: str) -> list[dict[str, Any]]:
    hits: list[dict[str, Any]] = link.ask("session/search", query=word, subagents=True)["hits"]
    return hits


def _list(link: Link) -> set[str]:
    found = set[str]()
    cursor: str | None = None
    while True:
        page = link.ask("session/list", limit=500, subagents=True, cursor=cursor)
        found |= {one["id"] for one in page["sessions"]}
        cursor = page.get("next_cursor")
        if cursor is None:
            return found


if __name__ == "__main__":
    sys.exit(main())
