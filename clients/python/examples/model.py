"""The model of the example agent, behind any server of streaming chat completions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from openai import AsyncOpenAI, OpenAIError

__all__ = ["Answer", "Call", "Model", "ModelError"]

SILENCE_SECONDS = 120


class ModelError(Exception):
    """Lack of a usable answer; the text says why, without content."""


@dataclass
class Call:
    """A call of a tool; `arguments` is JSON text as the model wrote the text."""

    id: str = ""
    name: str = ""
    arguments: str = ""

    def decoded(self) -> dict[str, Any]:
        """Return the arguments; none if the model wrote no JSON object."""
        try:
            found = json.loads(self.arguments or "{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


@dataclass
class Answer:
    """An answer as far as it has come."""

    text: str = ""
    calls: list[Call] = field(default_factory=list[Call])

    def take(self, delta: Any) -> str:
        """Add one part of the stream; return its text."""
        for part in delta.tool_calls or []:
            if part.index == len(self.calls):
                self.calls.append(Call())
            call, function = self.calls[part.index], part.function
            call.id += part.id or ""
            call.name += (function and function.name) or ""
            call.arguments += (function and function.arguments) or ""
        text: str = delta.content or ""
        self.text += text
        return text

    def message(self, stop: str, error: str | None = None) -> dict[str, Any]:
        """Return the answer as a message to store; calls count only in a whole answer."""
        content: list[dict[str, Any]] = []
        if self.text:
            content.append({"type": "text", "text": self.text})
        for call in self.calls if stop == "toolUse" else []:
            named = {"type": "toolCall", "id": call.id, "name": call.name}
            content.append({**named, "arguments": call.decoded()})
        message = {"role": "assistant", "content": content, "stopReason": stop}
        return message if error is None else {**message, "errorMessage": error}


class Model:
    """A model, by its address and name."""

    def __init__(self, base_url: str, name: str, key: str) -> None:
        self._name = name
        self._api = AsyncOpenAI(base_url=base_url, api_key=key, timeout=SILENCE_SECONDS)

    async def stream(
        self, messages: list[Any], tools: list[Any], answer: Answer
    ) -> AsyncIterator[str]:
        """Ask the model; fill `answer` and yield each piece of text as it comes. Raises ModelError."""
        finished = False
        ask: Any = self._api.chat.completions.create  # typed for the API's own names of models
        try:
            async with await ask(
                model=self._name,
                messages=messages,
                stream=True,
                **({"tools": tools} if tools else {}),
            ) as chunks:
                async for chunk in chunks:
                    for choice in chunk.choices:
                        if text := answer.take(choice.delta):
                            yield text
                        finished = finished or choice.finish_reason is not None
        except (OpenAIError, ValueError, AttributeError, IndexError, TypeError) as error:
            raise ModelError(f"the model's answer failed ({type(error).__name__})") from error
        if not finished:
            raise ModelError("the model's answer ended before its end")
