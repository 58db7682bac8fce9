"""State store: documents that are durable, in order, and changed on condition of a revision."""

from __future__ import annotations

import msgspec
import pytest

from sessiond.limits import STATE_VALUE_BYTES_MAX
from sessiond.rpc.framing import Framing
from tests.kit.house import House, arrived
from tests.kit.limits import set_limits
from tests.kit.state import NS, SetClock, document_path, put, values

# -- durable, and in order ----------------------------------------------------------------------


async def test_values_are_there_after_a_restart_and_after_a_power_cut(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        first = await put(wire, "a", {"x": [1, None]}, tags=["t", "u"], ttl_ms=60_000)
        second = await put(wire, "b", "two")
        assert second > first
        row = await wire.call("state/get", namespace=NS, key="a")
        cut = house.disk.crash()
    after = House(house.home, cut)
    for one in (house, after):
        async with one.daemon() as daemon, daemon.connect() as wire:
            assert await wire.call("state/get", namespace=NS, key="a") == row
            assert await values(wire) == {"a": {"x": [1, None]}, "b": "two"}
            # A revision is never used twice, whatever the clock does between two daemons.
            assert await put(wire, "c", 3) > second


@pytest.mark.parametrize("framing", list(Framing), ids=lambda framing: framing.value)
async def test_a_value_comes_back_as_the_bytes_that_were_sent(
    house: House, framing: Framing
) -> None:
    sent = b'{ "n" : 1.50, "big":123456789012345678901234567890, "s":"\\u00e9\\u2028\xe2\x80\xa8" }'
    body = b'{"id":1,"method":"state/set","params":{"namespace":"x","key":"k","value":%b}}' % sent
    for _ in range(2):
        async with house.daemon() as daemon, daemon.connect(framing) as wire:
            await wire.send(body)
            assert b'"result"' in await wire.receive()
            await wire.send(
                b'{"id":2,"method":"state/get","params":{"namespace":"x","key":"k"}}',
                b'{"id":3,"method":"state/all","params":{"namespace":"x"}}',
            )
            assert sent in await wire.receive()
            assert sent in await wire.receive()


async def test_changes_that_wait_for_the_disk_share_one_replacement(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await put(wire, "first", 0)
        with house.disk.hold("fsync") as gate:
            first = await wire.request("state/set", namespace=NS, key="first", value=1)
            await arrived(gate)
            before = house.disk.counts.copy()
            asked = [
                (to, await to.request("state/set", namespace=NS, key=f"k{n}", value=n))
                for n, to in enumerate([wire, other] * 5)
            ]
            await wire.call("server/ping")
            await other.call("server/ping")
            gate.open.set()
            await wire.answer(first)
            answers = [await to.answer(number) for to, number in asked]
        assert len({answer["revision"] for answer in answers}) == 10
        counts = house.disk.counts
        assert counts["rename"] - before["rename"] == 2
        # The sync that was held back was counted when it began.
        assert counts["fsync"] - before["fsync"] == 1
        assert (await wire.call("server/stats"))["state"]["writes"] == 3
        assert len(await values(wire)) == 11


async def test_pipelined_calls_take_effect_in_their_order(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        asked = [
            await wire.request("state/set", namespace=NS, key="a", value=1),
            await wire.request("state/get", namespace=NS, key="a"),
            await wire.request("state/set", namespace=NS, key="a", value=2),
            await wire.request("state/list"),
            await wire.request("state/delete", namespace=NS, key="a"),
            await wire.request("state/all", namespace=NS),
        ]
        _, one, two, listed, deleted, rest = [await wire.answer(number) for number in asked]
        assert (one["value"], deleted["deleted"], rest["values"]) == (1, True, [])
        assert [row["namespace"] for row in listed["namespaces"]] == [NS]
        assert deleted["revision"] == two["revision"] + 1


async def test_a_read_shows_a_change_only_once_it_is_durable(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await put(wire, "a", 1)
        await other.call("state/subscribe")
        with house.disk.hold("fsync_folder") as gate:
            await wire.request("state/set", namespace=NS, key="a", value=2)
            await arrived(gate)
            late = await other.request("state/get", namespace=NS, key="a")
            elsewhere = await other.call("state/get", namespace="another", key="a")
            assert (elsewhere["revision"], other.notifications) == (0, [])
        assert (await other.answer(late))["value"] == 2


async def test_a_change_in_line_can_be_cancelled_and_one_on_the_disk_cannot(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        with house.disk.hold("fsync") as gate:
            first = await wire.request("state/set", namespace=NS, key="a", value=1)
            await arrived(gate)
            second = await wire.request("state/set", namespace=NS, key="b", value=2)
            for number in (first, second):
                await wire.send({"method": "$/cancelRequest", "params": {"id": number}})
            await wire.call("server/ping")
        assert (await wire.answer(first))["created"]
        with pytest.raises(Exception, match="cancelled"):
            await wire.answer(second)
        assert await values(wire) == {"a": 1}


async def test_a_stop_waits_for_the_changes_in_line(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        asked = [await wire.request("state/set", namespace=NS, key=f"k{n}", value=n) for n in "ab"]
        await wire.call("server/ping")
        await daemon.end()
        for number in asked:
            assert (await wire.answer(number))["created"]
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await values(wire) == {"ka": "a", "kb": "b"}


# -- on condition of a revision -----------------------------------------------------------------


async def test_a_change_with_another_revision_is_refused_and_names_the_actual_one(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        absent = await wire.refusal(
            "state/set", namespace=NS, key="a", value=1, expected_revision=7
        )
        assert absent.data == {
            "kind": "revision_mismatch",
            "retryable": False,
            "namespace": NS,
            "key": "a",
            "expected_revision": 7,
            "actual_revision": 0,
        }
        first = await put(wire, "a", 1, expected_revision=0)
        other = await put(wire, "b", 1, expected_revision=None)
        foreign = (await wire.call("state/set", namespace="n2", key="a", value=1))["revision"]
        for wrong in (0, None, other, foreign):
            for method, more in (("state/set", {"value": 2}), ("state/delete", {})):
                refused = await wire.refusal(
                    method, namespace=NS, key="a", expected_revision=wrong, **more
                )
                assert refused.data["actual_revision"] == first
        assert await values(wire) == {"a": 1, "b": 1}
        second = await put(wire, "a", 2, expected_revision=first)
        gone = await wire.call("state/delete", namespace=NS, key="a", expected_revision=second)
        # A key that came back is another value: no old revision fits it.
        again = await put(wire, "a", 1, expected_revision=0)
        assert first < second < gone["revision"] < again


async def test_revisions_go_on_where_a_document_was_lost(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        lost = await put(wire, "a", 1)
    house.disk.put(document_path(house), b"")
    later = "2026-01-15T10:30:01.000Z"
    house.environment = msgspec.structs.replace(house.environment, now=lambda: later)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await put(wire, "a", 1) > lost


# -- time to live -------------------------------------------------------------------------------


async def test_a_value_expires_durably_and_a_clock_set_back_does_not_bring_it_back(
    house: House,
) -> None:
    clock = SetClock(house)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await other.call("state/subscribe", namespace=NS)
        revision = await put(wire, "a", 1, ttl_ms=60_000)
        await put(wire, "b", 2, ttl_ms=120_000)
        assert (await other.next_notification())["params"]["change"] == "set"
        clock.set(1)
        gone = await wire.call("state/get", namespace=NS, key="a")
        assert (gone["revision"], gone["value"]) == (0, None)
        cut = house.disk.crash()
        told = [(await other.next_notification())["params"] for _ in range(2)]
        assert [(one["key"], one["change"]) for one in told] == [("b", "set"), ("a", "expired")]
        clock.set(-20)
        assert await values(wire) == {"b": 2}
        refused = await wire.refusal(
            "state/set", namespace=NS, key="a", value=3, expected_revision=revision
        )
        assert refused.data["actual_revision"] == 0
        # A value that was stored after the clock was set back lives by that clock.
        await put(wire, "c", 3, ttl_ms=60_000, expected_revision=0)
        assert await values(wire) == {"b": 2, "c": 3}
        clock.set(-19)
        assert await values(wire) == {"b": 2}
    after = House(house.home, cut)
    after.environment = house.environment
    clock.set(-20)
    async with after.daemon() as daemon, daemon.connect() as wire:
        assert await values(wire) == {"b": 2}


async def test_a_full_disk_keeps_no_expired_value_from_being_gone(house: House) -> None:
    clock = SetClock(house)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a", 1, ttl_ms=60_000)
        await put(wire, "b", 2)
        clock.set(1)
        house.disk.capacity = 0
        assert await values(wire) == {"b": 2}
        refused = await wire.refusal("state/set", namespace=NS, key="c", value=3)
        assert refused.data["errno"] == "ENOSPC"
        house.disk.heal()
        clock.set(0)
        # Not silently: the log of the daemon says that the disk refused.
        assert await values(wire) in ({"b": 2}, {"a": 1, "b": 2})


# -- lists and changes --------------------------------------------------------------------------


async def test_tags_select_what_has_all_of_them(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await put(wire, "a", 1, tags=["x", "y", "x"])
        await put(wire, "b", 2, tags=["y"])
        await put(wire, "c", 3)
        assert await values(wire, tags=["y"]) == {"a": 1, "b": 2}
        assert await values(wire, tags=["x", "y"]) == {"a": 1}
        listed = await wire.call("state/list", namespace=NS, tags=["x"])
        assert [(row["key"], row["tags"]) for row in listed["keys"]] == [("a", ["x", "y"])]
        assert "value" not in listed["keys"][0]
        refused = await wire.refusal("state/list", tags=["x"])
        assert refused.data["path"] == "tags"
        # What is stored anew has the tags of its call alone.
        await put(wire, "a", 1)
        assert await values(wire, tags=["x"]) == {}


async def test_changes_are_told_to_those_who_want_them_before_the_answer(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        start = (await wire.call("state/subscribe", namespace=NS))["revision"]
        await wire.call("state/subscribe", namespace="n3")
        await other.call("state/subscribe")
        first = await put(wire, "a", "secret text")
        assert first > start
        (told,) = wire.notifications
        assert told["params"] == {"namespace": NS, "key": "a", "revision": first, "change": "set"}
        await wire.call("state/set", namespace="n2", key="k", value=1)
        await wire.call("state/unsubscribe", namespace=NS)
        await wire.call("state/delete", namespace=NS, key="a")
        await wire.call("state/delete", namespace=NS, key="a")
        assert len(wire.notifications) == 1
        heard = [(await other.next_notification())["params"] for _ in range(3)]
        assert [(one["namespace"], one["key"], one["change"]) for one in heard] == [
            (NS, "a", "set"),
            ("n2", "k", "set"),
            (NS, "a", "deleted"),
        ]
        await wire.call("state/unsubscribe")
        await wire.call("state/set", namespace="n3", key="k", value=1)
        assert len(wire.notifications) == 1
        await other.next_notification()


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    ["", ".", "..", "../x", "a/../b", "a/..", "/..", "a\\b", "a\0", "a\n", "é\x85", "k" * 257],
)
async def test_a_key_that_is_none_is_refused(house: House, bad: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for method in ("state/get", "state/delete", "state/set"):
            more = {"value": 1} if method == "state/set" else {}
            refused = await wire.refusal(method, namespace=NS, key=bad, **more)
            assert (refused.data["kind"], refused.data["path"]) == ("invalid_params", "key")
    assert not house.disk.exists(house.layout.state)


@pytest.mark.parametrize(
    "bad", ["", ".", "..", "../x", "a/b", "A", "é", "-a", "_a", ".a", "a\n", "n" * 65]
)
async def test_a_namespace_that_is_none_is_refused(house: House, bad: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for method in ("state/all", "state/list", "state/subscribe"):
            refused = await wire.refusal(method, namespace=bad)
            assert (refused.data["kind"], refused.data["path"]) == ("invalid_params", "namespace")


async def test_odd_keys_are_keys_like_any_other(house: House) -> None:
    odd = ["a.b", "..a", "a..", "/home/ana/shop", "@x/y:z", "é ✓", "...", "a b", "k" * 256]
    async with house.daemon() as daemon, daemon.connect() as wire:
        for key in odd:
            await put(wire, key, key)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await values(wire) == {key: key for key in odd}


async def test_bounds_refuse_and_change_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        too_long = "x" * STATE_VALUE_BYTES_MAX
        refused = await wire.refusal("state/set", namespace=NS, key="a", value=too_long)
        assert refused.data["kind"] == "too_large"
        assert not house.disk.exists(house.layout.state)
        set_limits(
            monkeypatch,
            STATE_KEYS_MAX=2,
            STATE_NAMESPACES_MAX=2,
            STATE_NAMESPACE_BYTES_MAX=5_000,
            STATE_BYTES_MAX=6_000,
        )
        await put(wire, "a", "x" * 2_000)
        await put(wire, "b", "x" * 2_000)
        for key, value in (("c", 1), ("a", "x" * 4_000)):
            refused = await wire.refusal("state/set", namespace=NS, key=key, value=value)
            assert refused.data["kind"] == "too_large"
        await put(wire, "a", "y" * 2_000)
        refused = await wire.refusal("state/set", namespace="n2", key="a", value="x" * 2_000)
        assert refused.data["kind"] == "too_large"
        await wire.call("state/set", namespace="n2", key="a", value=1)
        refused = await wire.refusal("state/set", namespace="n3", key="a", value=1)
        assert refused.data == {"kind": "too_large", "retryable": False, "limit": 2}
        await wire.call("state/delete", namespace=NS, key="b")
        await put(wire, "c", 1)
        assert await values(wire) == {"a": "y" * 2_000, "c": 1}
