"""Every argument of every tool, broken once each way: the answer says how to mend the call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.mcp.test_lines import SESSION, append, daemon, lines
from tests.processes.harness.daemon import Daemon

__all__ = ["daemon"]

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(120)]

Json = dict[str, Any]


def of_kind(rules: Json, value: Any) -> bool:
    kind = {"integer": int, "string": str}[rules.get("type", "string")]
    return type(value) is kind


def broken(tool: Json) -> Iterator[tuple[str, str, Json]]:
    """Yield an argument, how it is broken, and a call of the tool with it."""
    schema = tool["inputSchema"]
    # A cursor belongs to a page, so it has no example.
    good = {
        name: rules.get("examples", ["of no page"])[0]
        for name, rules in schema["properties"].items()
    }
    for name, rules in schema["properties"].items():
        rest = {one: good[one] for one in schema["required"] if one != name}
        if name in schema["required"]:
            yield name, "missing", rest
        for value in (None, True, 7, 7.5, "word", ["word"], {"a": 1}):
            if not of_kind(rules, value):
                yield name, f"the type of {value!r}", {**rest, name: value}
        if "minimum" in rules:
            yield name, "too small", {**rest, name: rules["minimum"] - 1}
        if "maximum" in rules:
            yield name, "too large", {**rest, name: rules["maximum"] + 1}
        if "enum" in rules:
            yield name, "no choice", {**rest, name: "neither"}
        yield f"{name}s", "unknown", {**rest, name: good[name], f"{name}s": good[name]}


def fits(schema: Json, given: Json) -> bool:
    """Return whether arguments fit a schema, by the test's own reading of it."""
    properties = schema["properties"]
    return set(schema["required"]) <= given.keys() <= properties.keys() and all(
        value in properties[name]["enum"]
        if "enum" in properties[name]
        else of_kind(properties[name], value)
        and properties[name].get("minimum", 0) <= (0 if isinstance(value, str) else value)
        for name, value in given.items()
    )


def test_a_call_with_a_broken_argument_is_answered_with_one_that_is_taken(daemon: Daemon) -> None:
    wrong: list[tuple[str, ...]] = []
    count = 0
    with lines(daemon, "--write") as one:
        for tool in one.ask("tools/list")["result"]["tools"]:
            name, schema = tool["name"], tool["inputSchema"]
            for argument, how, given in broken(tool):
                count += 1
                answer = one.call(name, **given)
                text = answer["content"][0]["text"]
                shown = re.fullmatch(rf"{name}: .*'{argument}' .*\. Example: {name} (.*)", text)
                example = json.loads(shown[1]) if shown else None
                if not answer["isError"] or example is None or not fits(schema, example):
                    wrong.append((name, argument, how, text))
                    continue
                if how != "unknown" and argument not in {*example, "cursor"}:
                    wrong.append((name, argument, how, text))
                taken = one.call(name, **example | own(example))
                refused = r"has to be|is missing|is unknown|Expected"
                if re.search(refused, taken["content"][0]["text"]):
                    wrong.append((name, argument, "the example", taken["content"][0]["text"]))
    assert wrong == []
    assert count > 200


def own(example: Json) -> Json:
    """Return the part of an example that stands for what its caller knows."""
    return {"session_id": SESSION} if "session_id" in example else {}


@pytest.mark.parametrize(
    ("name", "argument", "given"),
    [
        ("search_sessions", "query", {"query": "?!"}),
        ("search_sessions", "since", {"query": "first", "since": "yesterday"}),
        ("list_sessions", "cursor", {"cursor": "no cursor"}),
        ("session_tree", "cursor", {"session_id": SESSION, "cursor": "no cursor"}),
        ("read_session", "session_id", {"session_id": "../x"}),
        ("read_session", "upto", {"session_id": SESSION, "upto": "x" * 2000}),
        ("read_entry", "entry_id", {"session_id": SESSION, "entry_id": ""}),
        ("fork_session", "new_session_id", {"session_id": SESSION, "new_session_id": "../x"}),
        ("fork_session", "at", {"session_id": SESSION, "at": ""}),
        (
            "append_message",
            "expected_leaf",
            {"session_id": SESSION, "role": "user", "text": "a", "expected_leaf": ""},
        ),
        (
            "append_message",
            "idempotency_key",
            {"session_id": SESSION, "role": "user", "text": "a", "idempotency_key": ""},
        ),
    ],
)
def test_a_value_that_the_daemon_refuses_is_told_like_one_that_breaks_the_schema(
    daemon: Daemon, name: str, argument: str, given: Json
) -> None:
    with lines(daemon, "--write") as one:
        answer = one.call(name, **given)
        assert answer["isError"]
        text = answer["content"][0]["text"]
        assert text.startswith(f"{name}: the argument '{argument}' ")
        assert f". Example: {name} {{" in text


def test_each_wrong_argument_of_a_call_is_named_at_once(daemon: Daemon) -> None:
    with lines(daemon) as one:
        text = one.call("search_sessions", role="nobody", limit=0, x=1)["content"][0]["text"]
        for argument in ("query", "role", "limit", "x"):
            assert f"the argument '{argument}' " in text
        told = one.ask("tools/call", name="read_sessions", arguments={})["error"]["message"]
        assert "read_session," in told
        assert "append_message" not in told


def test_the_text_of_a_call_is_not_repeated_in_its_error(daemon: Daemon) -> None:
    with lines(daemon, "--write") as one:
        said = {"session_id": SESSION, "role": "system", "text": "secret"}
        assert "secret" not in one.call("append_message", **said)["content"][0]["text"]
        long = one.call("list_sessions", **{"secret" * 1000: 1})["content"][0]["text"]
        assert len(long) < 1000
    append(daemon, "still there")
