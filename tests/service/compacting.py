"""Compactions that a client asks for: a summarizing command, offers, and what is stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from anyio.lowlevel import checkpoint

from sessiond.model.requests import Purpose
from sessiond.service.ports import NoSummary
from tests.kit.house import House

__all__ = [
    "OFFER",
    "SAID",
    "Command",
    "serving",
]

SAID = "It was fixed. \u2028 é😀"
OFFER = {"summarize": True}


class Command:
    """The configured command, as the test wants it."""

    def __init__(self, said: str | None = None, *, is_there: bool = True) -> None:
        self.said = said
        self.is_there = is_there
        self.prompts: list[str] = []
        self.purposes: list[Purpose] = []

    async def summarize(self, prompt: str, purpose: Purpose) -> str:
        self.prompts.append(prompt)
        self.purposes.append(purpose)
        await checkpoint()
        if self.said is None:
            raise NoSummary("exit status 1")
        return self.said


@asynccontextmanager
async def serving(house: House, command: Command | None = None) -> AsyncGenerator[Any]:
    if command is not None:
        house.environment = msgspec.structs.replace(house.environment, summarizer=command)
    async with house.daemon() as daemon:
        yield daemon
        await daemon.end()
        assert len(daemon.service.runs) == 0
