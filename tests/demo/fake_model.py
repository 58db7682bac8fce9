"""A model that is none: a server of streaming chat completions whose answers the prompts prescribe.

    python tests/demo/fake_model.py [--port 8000]     prints the address to use as OPENAI_BASE_URL

Directives in the newest message of the user, in any order:

    [call NAME {"a": 1}]  ask for a tool, as often as there are directives; answer once results are there
    [words 50]            that many words before the answer, and before any trouble
    [pause 0.2]           seconds before each word
    [hang]                headers, then nothing until the client goes away
    [garbage]             an event that is no JSON
    [cut]                 the connection ends in the middle
    [status 500]          no stream but this HTTP status

The answer repeats the prompt. A request without tools, for a summary as a rule, has no directives.
The server keeps nothing between requests.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

__all__ = ["address", "serve"]

_CALL: Final = re.compile(r"\[call (\w+) (\{.*?\})\]")
_DIRECTIVE: Final = re.compile(r"\[(call|words|pause|hang|garbage|cut|status)\b[^\]]*\]")
_QUOTED: Final = 80
_HANG_SECONDS: Final = 0.05


class Cut(Exception):
    """End of the connection in the middle of an answer."""


class Model(BaseHTTPRequestHandler):
    """One request for a completion, answered as the newest prompt prescribes."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a request line may hold content."""

    def do_POST(self) -> None:
        """Answer a request for a completion."""
        size = int(self.headers.get("Content-Length", 0))
        asked = json.loads(self.rfile.read(size))
        prompt = _newest_prompt(asked["messages"])
        if not asked.get("tools"):
            prompt = prompt[:_QUOTED].replace(
                "[", "("
            )  # a summary: the directives are quoted words
        if status := _number("status", prompt):
            self.send_error(int(status))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for event in _events(asked, prompt):
                self._send(f"data: {event}\n\n".encode())
            self._send(b"data: [DONE]\n\n")
            self._send(b"")
        except (Cut, OSError):
            self.close_connection = True

    def _send(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def _events(asked: dict[str, Any], prompt: str) -> Iterator[str]:
    """Yield the events of one answer. Raises Cut."""
    messages = asked["messages"]
    calls = _CALL.findall(prompt)
    answered = sum(1 for message in messages[_place(messages) :] if message["role"] == "tool")
    yield _chunk({"role": "assistant", "content": ""})
    if calls and answered < len(calls):
        for index, (name, arguments) in enumerate(calls[answered:]):
            call = {"index": index, "id": f"call_{len(messages)}_{index}", "type": "function"}
            yield _chunk({"tool_calls": [call | {"function": {"name": name, "arguments": ""}}]})
            for half in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
                yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
        yield _chunk({}, finish="tool_calls")
    else:
        yield from _spoken(prompt)
        yield _chunk({}, finish="stop")
    words = sum(len(str(message.get("content"))) for message in messages) // 4
    usage = {"prompt_tokens": words, "completion_tokens": 10, "total_tokens": words + 10}
    yield json.dumps({**_FRAME, "choices": [], "usage": usage})


def _spoken(prompt: str) -> Iterator[str]:
    pause = _number("pause", prompt)
    for number in range(int(_number("words", prompt))):
        time.sleep(pause)
        yield _chunk({"content": f"word{number} "})
    while "[hang]" in prompt:
        # A comment of the stream: its write fails once the client has gone.
        time.sleep(_HANG_SECONDS)
        yield '{"object":"chat.completion.chunk","choices":[]}'
    if "[garbage]" in prompt:
        yield "this is {no JSON"
    if "[cut]" in prompt:
        raise Cut
    rest = _DIRECTIVE.sub("", prompt).strip()
    yield _chunk({"content": f"You said: {rest[:_QUOTED]}"})


_FRAME: Final = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "fake"}


def _chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    return json.dumps(
        {**_FRAME, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    )


def _place(messages: list[dict[str, Any]]) -> int:
    """Return the index of the newest message of the user."""
    return max(index for index, message in enumerate(messages) if message["role"] == "user")


def _newest_prompt(messages: list[dict[str, Any]]) -> str:
    content = messages[_place(messages)]["content"]
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content if part["type"] == "text")


def _number(name: str, prompt: str) -> float:
    found = re.search(rf"\[{name} ([\d.]+)\]", prompt)
    return float(found[1]) if found else 0.0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that were killed."""


def serve(port: int = 0) -> ThreadingHTTPServer:
    """Return a server that runs in a thread of its own; `shutdown` and `server_close` end the server."""
    server = _Server(("127.0.0.1", port), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def address(server: ThreadingHTTPServer) -> str:
    """Return the base address for clients."""
    return f"http://127.0.0.1:{server.server_address[1]}/v1"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A fake model, to try agents with.")
    parser.add_argument("--port", type=int, default=0)
    with serve(parser.parse_args().port) as running:
        print(address(running), flush=True)
        sys.stdin.read()  # until the starter goes away
