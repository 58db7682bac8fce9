"""The silence of other daemons, as their beats and the answers of the database tell."""

from __future__ import annotations

from sessiond.service.database.silence import Silence

LIMIT = 3.0


class Ears:
    """Ears of a daemon that hears one other daemon, by a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.beats = 1
        self.silence = Silence(LIMIT, lambda: self.now)
        self.hear()

    def hear(self, passed: float = 0.0) -> bool:
        """Ask for beats after so many seconds; return whether the daemon has just ended."""
        self.now += passed
        return self.silence.hear({"one": self.beats}, {"one"}) == {"one"}


def test_a_daemon_that_beats_goes_on() -> None:
    ears = Ears()
    for _ in range(10):
        assert not ears.hear(1.0)
        ears.beats += 1
        assert not ears.hear(1.0)


def test_a_silent_daemon_ends_once_and_comes_back_with_its_next_beat() -> None:
    ears = Ears()
    assert [ears.hear(1.0) for _ in range(4)] == [False, False, True, False]
    assert ears.silence.ended == {"one"}
    ears.beats += 1
    assert not ears.hear(1.0)
    assert ears.silence.ended == set()
    assert [ears.hear(1.0) for _ in range(3)] == [False, False, True]


def test_a_daemon_without_any_beat_ends_too() -> None:
    silence = Silence(LIMIT, iter([0.0, 1.5, 3.0]).__next__)
    assert [silence.hear({}, {"one"}) for _ in range(3)] == [set(), set(), {"one"}]


def test_an_outage_of_the_database_is_no_silence() -> None:
    ears = Ears()
    ears.hear(1.0)
    ears.hear(1.0)
    ears.silence.outage()
    # The outage took long, and nobody could beat.
    assert [ears.hear(60.0), ears.hear(1.0), ears.hear(1.0), ears.hear(1.0)] == [False] * 3 + [True]


def test_a_machine_that_slept_takes_no_daemon_for_ended() -> None:
    ears = Ears()
    assert not ears.hear(3600.0)
    ears.beats += 1
    assert not ears.hear(1.0)


def test_a_daemon_that_concerns_no_session_any_more_is_counted_anew() -> None:
    ears = Ears()
    ears.hear(1.0)
    ears.hear(1.0)
    ears.silence.hear({"one": ears.beats}, set())
    assert [ears.hear(1.0) for _ in range(4)] == [False, False, False, True]


def test_only_a_beat_brings_a_daemon_back() -> None:
    ears = Ears()
    for _ in range(3):
        ears.hear(1.0)
    ears.silence.hear({"one": ears.beats}, set())
    assert not ears.hear(1.0)
    assert ears.silence.ended == {"one"}
    ears.beats += 1
    assert not ears.hear(1.0)
    assert ears.silence.ended == set()


def test_a_row_that_another_daemon_has_removed_is_no_beat() -> None:
    ears = Ears()
    assert [ears.hear(1.0) for _ in range(3)] == [False, False, True]
    assert ears.silence.hear({}, {"one"}) == set()
    assert ears.silence.ended == {"one"}
    ears.beats += 1
    ears.hear()
    assert ears.silence.ended == set()
