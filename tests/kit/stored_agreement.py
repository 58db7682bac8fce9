"""Generated sessions of opencode, read by sessiond and by the second reader, and what both must find alike.

Sessiond follows each session from the beginning, and looks between the transactions of a move, too. It
is compared where a move is whole, because an answer that grows is held back. `tests.kit.agreement` says
where readers may differ. Here the question of a compaction has the id of the summary in sessiond, and
the summary is only its words: what the model thought before is left out.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sessiond.dialects.agents import AGENTS
from sessiond.journal.disk.files import Files
from sessiond.journal.store import Replaced
from sessiond.limits import OPENCODE_ANSWER_SECONDS
from sessiond.model.usage import Usage
from sessiond.service.sources.agents.opencode.source import StoreSource, title_of
from sessiond.service.sources.agents.opencode.store import choose, found_store
from tests.kit.agent_files.dice import Sizes
from tests.kit.agent_files.opencode import (
    Message,
    OpencodeScript,
    Talk,
    Transaction,
    connected,
    make_database,
    play,
)
from tests.kit.agent_files.opencode_moves import MOVES, opencode_script
from tests.kit.agent_files.opencode_rows import MOVES as ROW_MOVES
from tests.kit.agent_files.opencode_rows import opencode_rows_script
from tests.kit.agent_files.said import Reading
from tests.kit.agent_files.second_opencode import ASKED, read_opencode
from tests.kit.agreement import Spoken, contexts, tokens
from tests.kit.readings import ReadSession

STORE_KITS: Final[dict[str, Callable[[int | str, Sizes], OpencodeScript]]] = {
    "opencode": opencode_script,
    "opencode-rows": opencode_rows_script,
}
STORE_MOVES: Final = {"opencode": MOVES, "opencode-rows": ROW_MOVES}
QUIET: Final = frozenset(
    {"plain", "tools", "parallel", "steps", "unseen", "model", "abort", "fail", "crash", "diffs"}
    | {"image", "told", "shell", "switch"}
)
"""Moves that only add to a session: what was read stays as it was."""
# One of so many transactions has a look of sessiond behind it.
LOOKS: Final = 4


class ScriptFiles(Files):
    """Files whose clock is that of the last transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.seconds_later = 0.0

    def now(self) -> float:
        """Return the time of the last transaction, or a time later."""
        return self.now_ms / 1000 + self.seconds_later

    def pass_by(self, transaction: Transaction) -> None:
        """Let time pass up to a transaction."""
        values = (value for _, values in transaction for value in values)
        self.now_ms = max([self.now_ms, *(one for one in values if isinstance(one, int))])


@dataclass(frozen=True)
class Place:
    """A session of a database, and the files by which sessiond reads the database."""

    path: Path
    session_id: str
    files: ScriptFiles


class Followed:
    """A session of a database as sessiond reads it, again from the start whenever it is another log."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.replaced = -1
        self._begin()

    def _begin(self) -> None:
        place = self._place
        store = found_store(place.path, place.files)
        assert store is not None
        chosen = choose(store, place.path, place.session_id)
        self.source = StoreSource(chosen, place.path / place.session_id, place.files)
        self.found = ReadSession(AGENTS["opencode"].reading())
        self.replaced += 1

    def follow(self) -> Followed:
        """Read all that sessiond can read now."""
        while True:
            try:
                while lines := self.source.more():
                    self.found.take_all(lines)
            except Replaced:
                self._begin()
            else:
                return self

    @property
    def title(self) -> str | None:
        """Title of the session."""
        return title_of(self.source._contents.session)


def hold(followed: Followed, place: Place) -> None:
    """Fail unless sessiond and the second reader found the same, also when sessiond begins only now."""
    second = read_opencode(place.path, place.session_id)
    now = followed.follow().found
    hold_context(now.messages(), second)
    assert now.problems() == []
    assert tokens(now.usage) == tokens(usage_of(second))
    assert followed.title == second.title
    assert now.origin.cwd == second.cwd
    assert not followed.source.is_rewritten()
    cold = Followed(place).follow().found
    assert cold.lines == now.lines


def hold_context(found: list[tuple[str, dict[str, object]]], second: Reading) -> None:
    """Fail unless both found the same messages, of the same rows."""
    mine, theirs = contexts(found, second, "opencode")
    assert said_by(one for _, one in mine) == said_by(one for _, one in theirs)
    for (source, said), (one, _) in zip(mine, theirs, strict=True):
        # An entry has the number of its line behind an id that another entry has.
        assert source.partition(".")[0] in one.ids or said.text == ASKED, (source, one)


def said_by(messages: Iterable[Spoken]) -> list[Spoken]:
    """Return what messages say; the answer behind a question for a summary is only its words."""
    said: list[Spoken] = []
    for one in messages:
        is_summary = bool(said) and said[-1].text == ASKED
        said.append(replace(one, thinking="") if is_summary else one)
    return said


def usage_of(second: Reading) -> Usage:
    """Return the tokens that the second reader counted, in sessiond's terms: reasoning is output."""
    found = second.usage
    got = found["output"] + found["reasoning"]
    return Usage(found["input"], got, found["cache_read"], found["cache_write"])


def hold_store(folder: Path, name: str, seed: int | str, sizes: Sizes) -> Counter[str]:
    """Fail unless both readers agree behind each move of a script; return the moves that were made."""
    made: Counter[str] = Counter()
    replaced = 0
    for move, logs, is_reverted in held_moves(folder, name, seed, sizes):
        assert is_reverted or move not in QUIET or logs == replaced, move
        made[move], replaced = made[move] + 1, logs
    return made


def _hold_talk(followed: Followed, place: Place, talk: Talk) -> None:
    # A revert may leave an answer last that never ended: sessiond waits for a while.
    is_stuck = any(_never_ended(one) for one in talk.messages)
    place.files.seconds_later = OPENCODE_ANSWER_SECONDS if is_stuck else 0.0
    hold(followed, place)
    place.files.seconds_later = 0.0


def _never_ended(message: Message) -> bool:
    is_answer = "assistant" in (message.kind, message.data.get("role"))
    return is_answer and "completed" not in message.data["time"]


def held_moves(
    folder: Path, name: str, seed: int | str, sizes: Sizes
) -> Iterator[tuple[str, int, bool]]:
    """Yield each move once both readers agree, with the number of times that sessions became other logs.

    The last value tells whether the move began with a revert.
    """
    script, chance = STORE_KITS[name](seed, sizes), random.Random(f"looks {seed}")
    path = make_database(folder / f"{seed}.db", is_newer=script.is_newer)
    files, followed = ScriptFiles(), dict[str, Followed]()
    held: dict[str, object] = {}
    with closing(connected(path)) as connection:
        # Stale rows of version 1 count until there is a row of version 2.
        is_reverted = True
        for move, transactions in script.steps():
            for one in transactions:
                play(connection, [one])
                files.pass_by(one)
                if followed and chance.randrange(LOOKS) == 0:
                    chance.choice(list(followed.values())).follow()
            for talk in script.talks:
                # Two changes of the main session may have one time.
                if talk is not script.main and held.get(talk.id) == _size(talk):
                    continue
                place = Place(path, talk.id, files)
                if talk.id not in followed:
                    followed[talk.id] = Followed(place)
                _hold_talk(followed[talk.id], place, talk)
                held[talk.id] = _size(talk)
            yield move, sum(one.replaced for one in followed.values()), is_reverted
            is_reverted = script.main.revert is not None or not script.main.messages
        for talk in script.talks:
            _hold_talk(followed[talk.id], Place(path, talk.id, files), talk)


def _size(talk: Talk) -> object:
    return talk.columns["time_updated"], len(talk.messages), talk.messages[-1:]


__all__ = [
    "STORE_KITS",
    "STORE_MOVES",
    "Followed",
    "Place",
    "ScriptFiles",
    "held_moves",
    "hold",
    "hold_context",
    "hold_store",
    "said_by",
    "usage_of",
]
