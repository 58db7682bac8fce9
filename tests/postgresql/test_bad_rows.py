"""Rows that a person has changed into what no daemon writes: each is read, and the others with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anyio import fail_after, to_thread

from tests.kit.calls import append, create
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION
from tests.postgresql.cluster import Cluster
from tests.postgresql.conftest import Findings
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.postgresql.test_doctor import advice
from tests.processes.harness.daemon import running
from tests.service.one_database.site import Site, clients_of
from tests.service.test_bad_rows_on_one_database import WELL, shown

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase

pytestmark = pytest.mark.slow

TIMES = ["infinity", "-infinity", "30000-01-01", "294276-01-01", "4000-01-01 BC"]


def put_time(cluster: Cluster, schema: str, time: str) -> None:
    """Put a time of the last append into the row of the first session."""
    cluster.sql(
        f"UPDATE {schema}.sessions SET written_at = '{time}', changed = pg_current_xact_id()"
        " WHERE number = 1"
    )


@pytest.mark.parametrize("time", TIMES)
async def test_a_time_that_no_number_says_keeps_nothing_from_lists_and_events(
    site: Site, cluster: Cluster, schema: str, time: str
) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        for session_id in (SESSION, WELL):
            await create(one, session_id, persist="immediate")
            await three.call("session/subscribe", session_id=session_id)
        await to_thread.run_sync(put_time, cluster, schema, time)
        await append(one, "e-1", session_id=WELL)
        event = await three.next_notification()
        assert (event["method"], event["params"]["session_id"]) == ("session/event", WELL)
        for wire in (one, three):
            assert await shown(wire) == (sorted([SESSION, WELL]), [])
    async with site.daemon("five") as daemon, daemon.connect() as wire:
        with fail_after(PATIENCE_SECONDS):
            assert await shown(wire) == (sorted([SESSION, WELL]), [])
            await append(wire, "e-2")


def test_an_id_that_is_no_text_is_read_as_sql_spells_it(
    database: PostgresqlDatabase, cluster: Cluster, schema: str
) -> None:
    made = database.create(SESSION, "epoch-1", [[b"{}"]], "placed")
    well = database.create(WELL, "epoch-2", [[b"{}"]], "placed")
    assert made is not None
    assert well is not None
    cluster.sql(rf"UPDATE {schema}.sessions SET session_id = '\xff00fe' WHERE number = 1")
    for heads in (database.heads([1, 2]), database.changes(0).heads):
        assert sorted(head.session_id for head in heads) == [r"\xff00fe", WELL]
    assert database.ids(9) == [WELL, r"\xff00fe"]
    assert [*database.holding(b"{")] == [WELL, r"\xff00fe"]


def test_rows_of_a_server_that_has_done_more_come_once(
    database: PostgresqlDatabase, cluster: Cluster, schema: str
) -> None:
    made = database.create(SESSION, "epoch-1", [[b"{}"]], "placed")
    assert made is not None
    cluster.sql(f"UPDATE {schema}.sessions SET changed = '99999999999'")
    first = database.changes(0)
    assert [head.session_id for head in first.heads] == [SESSION]
    assert database.changes(first.upto).heads == []
    assert database.move(made, "archived") is not None
    assert [head.place for head in database.changes(first.upto).heads] == ["archived"]


def test_a_sender_that_no_daemon_writes_is_left_out(
    database: PostgresqlDatabase, cluster: Cluster, schema: str
) -> None:
    made = database.create(SESSION, "epoch-1", [[b"{}"]], "placed")
    assert made is not None
    for name in ("two words", "name,too", "well"):
        cluster.sql(
            f"INSERT INTO {schema}.senders VALUES ({made.number}, '{name}', 'd', 1, 7, 1, '', true)"
        )
    (head,) = database.heads([made.number])
    assert "well" in [sender.name for sender in head.senders or ()]


def test_a_namespace_that_is_no_text_hides_no_other_one(
    database: PostgresqlDatabase, cluster: Cluster, schema: str
) -> None:
    assert database.put_document("state", "well", b"", b"token", b"{}")
    cluster.sql(rf"INSERT INTO {schema}.documents VALUES ('state', '\xff00fe', 'token', '')")
    assert database.document_tokens("state") == {"well": b"token"}


def test_doctor_names_each_bad_row_and_goes_on(
    own_cluster: Cluster, tmp_path: Path, findings: Findings
) -> None:
    daemon = SharingDaemon(own_cluster.folder / "s.sock", tmp_path / "home", own_cluster.folder)
    with running(daemon), daemon.connect() as link:
        for session_id in ("session-1", "session-2", "session-3"):
            link.ask("session/create", session_id=session_id, cwd="/p", persist="immediate")
    own_cluster.sql("UPDATE sessiond.sessions SET seq = 9223372036854775807 WHERE number = 1")
    own_cluster.sql(r"UPDATE sessiond.sessions SET session_id = '\xff00fe' WHERE number = 2")
    found = findings(daemon)
    assert advice(found, "counts other lines") == "see `sessiond verify session-1`"
    assert advice(found, r"has no session id: \xff00fe") == "correct session_id there"
    assert any("3 sessions" in what for what in found)
