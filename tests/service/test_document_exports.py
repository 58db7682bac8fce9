"""Documents through the daemon: JSON, Markdown and HTML, redacted, as an answer or as a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.methods.session import export
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create_with
from tests.kit.house import House
from tests.kit.sessions import SESSION
from tests.unit.documents import Page

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]


async def content(wire: Wire, form: str, **more: Any) -> str:
    found = await call(wire, "session/export", format=form, **more)
    text: str = found["content"]
    return text


async def refused(wire: Wire, form: str, **more: Any) -> tuple[str, str | None]:
    refusal = await wire.refusal("session/export", session_id=SESSION, format=form, **more)
    return refusal.data["kind"], refusal.data.get("path")


async def test_a_session_is_answered_as_every_document(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        await call(wire, "session/branch", entry_id="n1", head="other")
        await append(wire, "n3", head="other", role="assistant")
        found = json.loads(await content(wire, "json", include=["entries", "heads"]))
        shown = await call(wire, "session/entries")
        assert [row["entry"] for row in found["entries"]] == [
            row["entry"] for row in shown["entries"]
        ]
        assert found["heads"] == (await call(wire, "session/heads"))["heads"]
        assert "\nn2\n" in await content(wire, "markdown")
        assert "\nn2\n" not in await content(wire, "markdown", head="other")
        assert "\nn3\n" in await content(wire, "markdown", branches="all")
        page = Page(await content(wire, "html", head="other"))
        assert [one["id"] for one in page.all("article")] == ["entry-n1", "entry-n3", "entry-n2"]


async def test_a_parameter_that_a_format_does_not_know_is_refused(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        for form in ("native", "pi"):
            assert await refused(wire, form, redact=["x"]) == ("invalid_params", "redact")
            assert await refused(wire, form, head="main") == ("invalid_params", "head")
        assert await refused(wire, "html", include=["tree"]) == ("invalid_params", "include")
        assert await refused(wire, "json", branches="all") == ("invalid_params", "branches")
        assert (await refused(wire, "markdown", head="nowhere"))[0] == "head_not_found"
        assert await refused(wire, "json", redact=["x"] * 101) == ("invalid_params", "redact")
        assert await refused(wire, "json", redact=["x" * 1001]) == ("invalid_params", "redact[0]")


async def test_configured_patterns_hold_for_every_document_and_a_bad_one_makes_no_file(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        await append(wire, "n2", "s3cret and hidden")
        daemon.service.environment.policies.redact = ("s3c.et",)
        text = await content(wire, "markdown", redact=["hid+en"])
        assert "[redacted] and [redacted]" in text
        path = house.home / "page.html"
        assert await refused(wire, "html", path=str(path), redact=["["]) == (
            "invalid_params",
            "redact[0]",
        )
        assert not any(".new" in found.name or found == path for found in house.disk.paths)
        assert (await call(wire, "session/export", format="html", path=str(path)))["path"]
        assert b"s3cret" not in house.disk.content(path)


async def test_an_answer_that_would_be_too_large_says_to_give_a_path(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "RESULT_BYTES_MAX", 3000)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        assert await content(wire, "json")
        refusal = await wire.refusal("session/export", session_id=SESSION, format="html")
        assert (refusal.data["kind"], refusal.data["limit"]) == ("too_large", 3000)
        assert "path" in refusal.message
        path = str(house.home / "page.html")
        assert (await call(wire, "session/export", format="html", path=path))["path"] == path


async def test_a_document_shows_the_session_as_it_was_when_it_was_asked_for(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        number = await wire.request("session/export", session_id=SESSION, format="json")
        await append(wire, "n2")
        found = json.loads((await wire.answer(number))["content"])
        assert [row["entry"]["id"] for row in found["entries"]] == ["n1"]
