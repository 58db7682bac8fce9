"""Documents through the daemon: JSON, Markdown and HTML, redacted, as an answer or as a file."""

from __future__ import annotations

import json

import pytest

from sessiond.methods.session import export
from tests.kit.calls import append, call, create_with, refused
from tests.kit.documents import Page
from tests.kit.house import House
from tests.kit.sessions import SESSION

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]


async def test_a_session_is_answered_as_every_document(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        await call(wire, "session/branch", entry_id="n1", head="other")
        await append(wire, "n3", head="other", role="assistant")
        found = json.loads(
            await call(
                wire, "session/export", "content", format="json", include=["entries", "heads"]
            )
        )
        shown = await call(wire, "session/entries")
        assert [row["entry"] for row in found["entries"]] == [
            row["entry"] for row in shown["entries"]
        ]
        assert found["heads"] == (await call(wire, "session/heads"))["heads"]
        assert "\nn2\n" in await call(wire, "session/export", "content", format="markdown")
        text = await call(wire, "session/export", "content", format="markdown", head="other")
        assert "\nn2\n" not in text
        text = await call(wire, "session/export", "content", format="markdown", branches="all")
        assert "\nn3\n" in text
        page = Page(await call(wire, "session/export", "content", format="html", head="other"))
        assert [one["id"] for one in page.all("article")] == ["entry-n1", "entry-n3", "entry-n2"]


async def test_what_sessiond_stores_itself_is_not_called_data_of_an_extension(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        await call(wire, "session/decide", decision="Test around midnight")
        await call(wire, "session/task", task="Find out")
        for word in ("sessiond.channel", "acme.note"):
            entry = {
                "type": "custom",
                "custom_type": word,
                "data": {"name": "chat", "chat_id": "7"},
            }
            await call(wire, "session/append", entries=[entry])
        for form in ("html", "markdown"):
            text = await call(wire, "session/export", "content", format=form)
            assert text.count("Data of an extension") == 1, form
            for name in ("Decision", "Task", "Channel"):
                assert name in text, (form, name)


async def test_a_parameter_that_a_format_does_not_know_is_refused(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        for params, path in (
            ({"format": "native", "redact": ["x"]}, "redact"),
            ({"format": "native", "head": "main"}, "head"),
            ({"format": "pi", "redact": ["x"]}, "redact"),
            ({"format": "pi", "head": "main"}, "head"),
            ({"format": "html", "include": ["tree"]}, "include"),
            ({"format": "json", "branches": "all"}, "branches"),
            ({"format": "json", "redact": ["x"] * 101}, "redact"),
            ({"format": "json", "redact": ["x" * 1001]}, "redact[0]"),
        ):
            told = await refused(wire, "session/export", "{kind,path}", **params)
            assert told == ("invalid_params", path), params
        lacks = await refused(wire, "session/export", format="markdown", head="nowhere")
        assert lacks == "head_not_found"


async def test_configured_patterns_hold_for_every_document_and_a_bad_one_makes_no_file(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        await append(wire, "n2", "s3cret and hidden")
        daemon.service.environment.policies.redact = ("s3c.et",)
        text = await call(wire, "session/export", "content", format="markdown", redact=["hid+en"])
        assert "[redacted] and [redacted]" in text
        path = house.home / "page.html"
        params = {"format": "html", "path": str(path), "redact": ["["]}
        told = await refused(wire, "session/export", "{kind,path}", **params)
        assert told == ("invalid_params", "redact[0]")
        assert not any(".new" in found.name or found == path for found in house.disk.paths)
        assert (await call(wire, "session/export", format="html", path=str(path)))["path"]
        assert b"s3cret" not in house.disk.content(path)


async def test_an_answer_that_would_be_too_large_says_to_give_a_path(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "RESULT_BYTES_MAX", 3000)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        assert await call(wire, "session/export", "content", format="json")
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
