"""Sessions of the OpenAI Agents SDK on a real daemon, with a model whose answers a test prescribes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import anyio
import anyio.lowlevel
import pytest

from sessiond_client import Client, connect
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return the one backend that the SDK runs on."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _sdk(absent: Callable[[str], NoReturn]) -> None:
    try:
        import agents
    except ImportError:
        absent("openai-agents is not installed (dependency group extras)")
    agents.set_tracing_disabled(disabled=True)


@pytest.fixture
def listening(server: Daemon) -> Daemon:
    """Return the daemon once it takes connections."""
    server.connect().close()
    return server


@pytest.fixture
async def client(listening: Daemon) -> AsyncIterator[Client]:
    """Return a client of the daemon."""
    async with connect(listening.socket_path, timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture
def new_session(client: Client) -> Callable[..., Any]:
    """Return a function that makes a session of the SDK."""
    from sessiond_client.openai_agents import BranchingSession

    def make(session_id: str = "a session of the SDK", **options: Any) -> BranchingSession:
        return BranchingSession(session_id, client=client, **options)

    return make


class Scripted:
    """The answers that a model gives, in order, and the inputs that it got."""

    def __init__(self) -> None:
        from agents.models.interface import Model

        self.inputs: list[Any] = []
        self.answers: list[list[Any]] = []
        script = self

        class ScriptedModel(Model):
            """A model without a mind."""

            async def get_response(
                self, system_instructions: Any, input: Any, *_: Any, **__: Any
            ) -> Any:
                from agents import ModelResponse, Usage

                script.inputs.append(list(input) if isinstance(input, list) else input)
                await anyio.lowlevel.checkpoint()
                return ModelResponse(script.answers.pop(0), Usage(), response_id="resp_1")

            async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
                from openai.types.responses import Response, ResponseCompletedEvent

                answer = await self.get_response(*args, **options)
                response = Response.model_construct(
                    id="r", output=answer.output, usage=None, created_at=0.0
                )
                yield ResponseCompletedEvent.model_construct(
                    type="response.completed", response=response, sequence_number=0
                )

        self.model: Model = ScriptedModel()

    def says(self, text: str) -> Scripted:
        """Add an answer in words."""
        from openai.types.responses import ResponseOutputMessage, ResponseOutputText

        part = ResponseOutputText(type="output_text", text=text, annotations=[])
        self.answers.append(
            [
                ResponseOutputMessage(
                    id=f"msg_{len(self.answers)}",
                    type="message",
                    role="assistant",
                    status="completed",
                    content=[part],
                )
            ]
        )
        return self

    def calls(self, name: str, arguments: str) -> Scripted:
        """Add an answer that calls a function."""
        from openai.types.responses import ResponseFunctionToolCall

        call = ResponseFunctionToolCall(
            type="function_call", call_id=f"call_{name}", name=name, arguments=arguments, id="fc_1"
        )
        self.answers.append([call])
        return self


@pytest.fixture
def script() -> Scripted:
    """Return a new script of a model."""
    return Scripted()
