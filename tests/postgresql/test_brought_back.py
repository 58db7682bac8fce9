"""A database that lacks the last acknowledged lines: a standby that took over, and a restored dump."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.link import Link, Refused
from tests.kit.patience import soon_answered
from tests.postgresql.cluster import Cluster, programs
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.processes.harness.daemon import running

pytestmark = [pytest.mark.slow, pytest.mark.search]

SESSION = "my-session"


@pytest.fixture
def standby(own_cluster: Cluster) -> Iterator[Cluster]:
    """Return a running standby of the test's server."""
    made = own_cluster.standby()
    made.start()
    yield made
    made.end()


@pytest.fixture
def cluster_of_less() -> Iterator[Cluster]:
    """Return a server that has had few transactions, and is not started yet."""
    found = programs()
    assert found is not None
    made_anew = Cluster(found)
    yield made_anew
    made_anew.end()


def session(link: Link) -> Any:
    return link.ask("session/get", session_id=SESSION)["session"]


def said_at_last(daemon: SharingDaemon, content: str) -> None:
    """Append a message as soon as the database answers again."""

    def say() -> None:
        with daemon.connect() as link:
            link.say(SESSION, content)

    soon_answered(say, lambda error: isinstance(error, Refused) and error.data["retryable"])


def told(link: Link, method: str) -> Any:
    """Return the next notification of a kind."""
    while (message := link.message())["method"] != method:
        pass
    return message["params"]


def lose_the_last_lines(
    own_cluster: Cluster, standby: Cluster, daemon: SharingDaemon, watching: Link
) -> Any:
    """Acknowledge lines that the standby does not get, and let the standby take over.

    Return the event of the last line that is lost.
    """
    with daemon.connect() as link:
        link.say(SESSION, "kept")
        standby.follow(own_cluster)
        # The standby receives nothing from here on.
        standby.configure(primary_conninfo="")
        link.say(SESSION, "lost 1")
        link.say(SESSION, "lost 2")
    lost = told(watching, "session/event")
    while lost["entry"]["message"]["content"] != "lost 2":
        lost = told(watching, "session/event")
    own_cluster.kill()
    standby.promote()
    return lost


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_a_standby_without_the_last_lines_gives_a_new_epoch(
    own_cluster: Cluster, standby: Cluster, tmp_path: Path, restarted: bool
) -> None:
    hosts = own_cluster.folder, standby.folder
    one = SharingDaemon(own_cluster.folder / "1.sock", tmp_path / "home-1", *hosts)
    two = SharingDaemon(own_cluster.folder / "2.sock", tmp_path / "home-2", *hosts)
    with running(one), running(two), two.connect() as watching:
        with one.connect() as link:
            link.ask("session/create", session_id=SESSION, cwd="/p", persist="immediate")
        watching.ask("subscribe", session_id=SESSION, after={"seq": 0})
        lost = lose_the_last_lines(own_cluster, standby, one, watching)
        cursor = {"seq": lost["seq"], "entry_id": lost["entry"]["id"], "epoch": lost["epoch"]}
        if restarted:
            # No daemon has a copy of the lines: only the client knows that there were more.
            one.discard()
            two.discard()
            one.start()
            two.start()
            with two.connect() as back:
                answer = back.ask("subscribe", session_id=SESSION, after=cursor)
                assert answer["replaced"] == "ahead"
                assert answer["epoch"] != lost["epoch"]
        said_at_last(one, "new")
        if not restarted:
            assert told(watching, "session/replaced")["epoch"] != lost["epoch"]
        for daemon in (one, two):
            with daemon.connect() as link:
                assert session(link)["epoch"] != lost["epoch"]
                assert link.contents(SESSION) == ["kept", "new"]


def test_a_dump_that_is_restored_under_running_daemons_gives_a_new_epoch(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    one, two = SharingDaemon.pair(own_cluster.folder, tmp_path)
    with running(one), running(two), two.connect() as watching:
        with one.connect() as link:
            link.ask("session/create", session_id=SESSION, cwd="/p", persist="immediate")
            link.say(SESSION, "kept")
            dumped = own_cluster.dump()
            watching.ask("subscribe", session_id=SESSION, after={"seq": 0})
            link.say(SESSION, "lost 1")
            link.say(SESSION, "lost 2")
            epoch = session(link)["epoch"]
        own_cluster.restore(dumped)
        said_at_last(one, "new")
        assert told(watching, "session/replaced")["epoch"] != epoch
        for daemon in (one, two):
            with daemon.connect() as link:
                assert session(link)["epoch"] != epoch
                assert link.contents(SESSION) == ["kept", "new"]


def listed(daemon: SharingDaemon) -> list[str]:
    """Return the sessions of a daemon's list."""
    with daemon.connect() as link:
        return sorted(one["id"] for one in link.ask("session/list")["sessions"])


def made(daemon: SharingDaemon, *session_ids: str) -> None:
    """Store sessions, which are not open behind that."""
    with daemon.connect() as link:
        for session_id in session_ids:
            link.ask("session/create", session_id=session_id, cwd="/p", persist="immediate")
            link.say(session_id, "said")
            link.ask("session/close", session_id=session_id)


def test_lists_show_what_a_dump_has_brought_back(own_cluster: Cluster, tmp_path: Path) -> None:
    one, two = SharingDaemon.pair(own_cluster.folder, tmp_path)
    with running(one), running(two):
        made(one, SESSION, "deleted-later")
        dumped = own_cluster.dump()
        made(one, "made-later")
        with one.connect() as link:
            link.ask("session/delete", session_id="deleted-later")
        for daemon in (one, two):
            assert listed(daemon) == ["made-later", SESSION]
        own_cluster.restore(dumped)
        for daemon in (one, two):
            assert listed(daemon) == ["deleted-later", SESSION]
        made(two, "new-session")
        for daemon in (one, two):
            assert listed(daemon) == ["deleted-later", SESSION, "new-session"]


def test_lists_show_what_comes_on_a_server_that_has_done_less(
    own_cluster: Cluster, cluster_of_less: Cluster, tmp_path: Path
) -> None:
    folders = own_cluster.folder, cluster_of_less.folder
    one = SharingDaemon(own_cluster.folder / "1.sock", tmp_path / "home-1", *folders)
    two = SharingDaemon(own_cluster.folder / "2.sock", tmp_path / "home-2", *folders)
    with running(one), running(two):
        own_cluster.sql(
            "DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
        )
        made(one, SESSION)
        dumped = own_cluster.dump()
        made(one, "made-later")
        for daemon in (one, two):
            assert listed(daemon) == ["made-later", SESSION]
        own_cluster.kill()
        cluster_of_less.start()
        cluster_of_less.restore(dumped)
        said_at_last(one, "new")
        for daemon in (one, two):
            assert listed(daemon) == [SESSION]
        made(one, "new-session")
        for daemon in (one, two):
            assert listed(daemon) == [SESSION, "new-session"]
        one.discard()
        one.start()
        assert listed(one) == [SESSION, "new-session"]
