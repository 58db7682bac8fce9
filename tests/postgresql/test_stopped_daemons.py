"""A daemon that is stopped, wherever it is, stops no other daemon."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from sessiond.limits import DATABASE_COMMIT_SECONDS
from tests.kit.link import Refused
from tests.kit.patience import paused
from tests.postgresql.cluster import Cluster
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.processes.harness.daemon import running

pytestmark = [pytest.mark.slow, pytest.mark.search]

SESSION = "my-session"
KEY = 4711
WORKERS = 4
IDLE_END = "terminating connection due to idle-in-transaction timeout"
"""What a server says of a transaction that it ends because its client does nothing."""
IDLE_LIMIT = "the client may do nothing for"
# A statement that deletes a session waits at its end, with the row, until the test lets it go.
WAIT = f"""
SET search_path TO sessiond;
CREATE FUNCTION wait_with_the_row() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
        RAISE LOG '{IDLE_LIMIT} %', current_setting('idle_in_transaction_session_timeout');
        PERFORM pg_advisory_xact_lock_shared({KEY});
        RETURN NULL;
    END $$;
CREATE TRIGGER waits AFTER UPDATE ON sessions FOR EACH ROW
    WHEN (NEW.is_deleted AND NOT OLD.is_deleted) EXECUTE FUNCTION wait_with_the_row();
"""


@pytest.fixture
def two(own_cluster: Cluster, tmp_path: Path) -> Iterator[list[SharingDaemon]]:
    """Return two running daemons on one database."""
    with ExitStack() as ends:
        made = [
            SharingDaemon(
                own_cluster.folder / f"{at}.sock", tmp_path / f"home-{at}", own_cluster.folder
            )
            for at in range(2)
        ]
        for one in made:
            ends.enter_context(running(one))
        yield made


@contextmanager
def stopped(daemon: SharingDaemon) -> Generator[None]:
    """Stop a daemon during the block."""
    daemon.signal_and_look(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.signal_and_look(signal.SIGCONT)


def test_a_row_that_a_stopped_daemon_holds_is_free_within_seconds(
    own_cluster: Cluster, two: list[SharingDaemon]
) -> None:
    one, other = two
    with one.connect() as link, other.connect() as beside:
        link.ask("session/create", session_id=SESSION, cwd="/p", persist="immediate")
        for text in ("first", "damaged"):
            link.say(SESSION, text)
        link.ask("session/close", session_id=SESSION)
        own_cluster.sql(f"UPDATE sessiond.lines SET line = 'no JSON' WHERE seq = 2; {WAIT}")
        answers: list[object] = []

        def repair() -> None:
            with suppress(Refused), one.connect() as third:
                answers.append(third.ask("session/repair", session_id=SESSION, dry_run=False))

        with (
            own_cluster.holding(f"SELECT pg_advisory_lock({KEY})"),
            ThreadPoolExecutor() as threads,
        ):
            repairing = threads.submit(repair)
            own_cluster.wait_for_backends("wait_event = 'advisory'")
            with stopped(one):
                done = threads.submit(
                    beside.ask, "session/repair", session_id=SESSION, dry_run=False
                )
                own_cluster.wait_for_backends("wait_event = 'transactionid'")
                # The statement ends, the stopped daemon does not commit, and the row stays locked.
                assert IDLE_END not in own_cluster.said()
                own_cluster.let_go()
                # A statement that waits for the row for too long is refused.
                assert done.result()["repaired"]
                assert own_cluster.said().count(IDLE_END) == 1
                beside.say(SESSION, "third")
            repairing.result()
        assert answers == []
        assert f"{IDLE_LIMIT} {DATABASE_COMMIT_SECONDS}s" in own_cluster.said()
        for at in (link, beside):
            assert at.contents(SESSION) == ["first", "third"]


def test_a_daemon_that_is_stopped_at_any_time_stops_no_other_daemon(
    own_cluster: Cluster, two: list[SharingDaemon]
) -> None:
    one, other = two
    chance = random.Random(7)
    is_over = threading.Event()

    def work(number: int) -> None:
        """Create, append, delete, purge, lease, again and again."""
        with one.connect() as link:
            while not is_over.is_set():
                name = f"session-of-{number}"
                with suppress(Refused):
                    link.ask("session/create", session_id=name, cwd="/p", persist="immediate")
                    for text in ("one", "two"):
                        link.say(name, text)
                        link.say(SESSION, text)
                    link.ask("session/delete", session_id=name)
                    link.ask("session/purge", session_id=name)

    with other.connect() as link:
        link.ask("session/create", session_id=SESSION, cwd="/p", persist="immediate")
        threads = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
        for thread in threads:
            thread.start()
        try:
            for turn in range(20):
                paused(chance, 0, 0.1)
                with stopped(one):
                    ended = own_cluster.said().count(IDLE_END)
                    link.say(SESSION, f"beside {turn}")
                    name = f"session-beside-{turn}"
                    link.ask("session/create", session_id=name, cwd="/p", persist="immediate")
                    assert link.contents(SESSION)[-1] == f"beside {turn}"
                    link.ask("session/delete", session_id=name)
                    link.ask("session/purge", session_id=name)
                    # No call was refused for a wait, and each worker had one row at most.
                    assert own_cluster.said().count(IDLE_END) - ended <= WORKERS
        finally:
            is_over.set()
            for thread in threads:
                thread.join()


def test_a_daemon_that_is_stopped_while_it_makes_the_tables_stops_no_other_start(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    first, second = SharingDaemon.pair(own_cluster.folder, tmp_path)
    # The statement that makes the schema waits for another one that made a schema of this name.
    with own_cluster.holding("CREATE SCHEMA sessiond"):
        first.start()
        try:
            own_cluster.wait_for_backends("wait_event_type = 'Lock'")
            with stopped(first):
                own_cluster.let_go()
                own_cluster.wait_for_backends("state = 'idle in transaction'")
                with running(second), second.connect() as link:
                    link.ask("session/create", session_id=SESSION, cwd="/p", persist="immediate")
                    link.say(SESSION, "there")
        finally:
            first.discard()
