"""protocol.schema.json is today's, and everything that the transcripts show follows it."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import Raw

from sessiond.errors import ERRORS, SessiondError
from sessiond.methods import METHODS
from sessiond.methods._shared.common import parse_entry
from sessiond.model.entries import ENTRY_TYPES
from sessiond.model.events import NOTIFICATIONS
from sessiond.model.requests import CLIENT_REQUESTS
from sessiond.schema import FORMATS
from sessiond.schema.clients import CLIENTS
from sessiond.schema.python import FOLDER
from sessiond.schema.python.names import BASES, MESSAGES, REQUESTS, RESULTS
from tests.protocol.happened import NAMES, REPOSITORY, answered, messages, transcripts

SCHEMA: dict[str, Any] = json.loads(FORMATS["jsonschema"]())
CHECKED_IN = {
    "jsonschema": "protocol.schema.json",
    "openrpc": "protocol.openrpc.json",
    "typescript": "clients/typescript/protocol.d.ts",
}


# What the library itself reads, or reads only in part.
NOT_OFFERED: dict[str, set[str]] = {
    "StateChange": {"session_id"},
    "ProgressValue": {"kind"},
    "Subscribed": {"heads", "leaf_id"},
    "InitializeResult": {"limits", "protocol_version"},
}
READ_IN_PART = {"EntryName", "Capabilities", "ServerInfo"}


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "$defs": SCHEMA["$defs"]})


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_checked_in_is_todays(format: str) -> None:
    name = CHECKED_IN[format]
    text = (REPOSITORY / name).read_text()
    assert text == FORMATS[format](), f"{name} is of another day; run: make schema"


def test_the_generated_files_of_the_clients_are_todays() -> None:
    folders = ("python/sessiond_client", "typescript/src")
    generated = {
        str(path.relative_to(REPOSITORY))
        for folder in folders
        for path in (REPOSITORY / "clients" / folder / "generated").glob("*.[pt][ys]")
    }
    assert generated | {f"{FOLDER}/exports.py"} == set(CLIENTS)
    for name, text in CLIENTS.items():
        assert (REPOSITORY / name).read_text() == text(), (
            f"{name} is of another day; run: make schema"
        )


def test_the_python_client_offers_every_member_of_what_the_daemon_sends() -> None:
    rows = (*MESSAGES, *RESULTS, *REQUESTS)
    offered = {name: set(re.findall(r"(?:^| )(\w+)", fields)) for name, _, fields in rows}
    for name, sources, _ in rows:
        members = {one for each in sources.split() for one in SCHEMA["$defs"][each]["properties"]}
        fields = offered[name] | offered.get(BASES.get(name, ""), set())
        assert fields <= members
        if name not in READ_IN_PART:
            assert members - fields == NOT_OFFERED.get(name, set()), name


def test_the_schema_is_a_schema_and_names_everything() -> None:
    Draft202012Validator.check_schema({"$defs": SCHEMA["$defs"]})
    assert list(SCHEMA["methods"]) == [method.name for method in METHODS]
    assert list(SCHEMA["notifications"]) == list(NOTIFICATIONS)
    assert list(SCHEMA["client_requests"]) == list(CLIENT_REQUESTS)
    assert set(SCHEMA["entries"]) == {"session_header", *ENTRY_TYPES}
    assert [error["code"] for error in SCHEMA["errors"]] == [error.code for error in ERRORS]
    assert all(method["summary"].endswith(".") for method in SCHEMA["methods"].values())


def test_what_always_goes_out_is_required_and_what_may_be_left_out_is_not() -> None:
    def required(name: str) -> set[str]:
        return set(SCHEMA["$defs"][name]["required"])

    # These have defaults for whoever makes them, and are encoded all the same.
    assert "durability" in required("Receipt")
    assert "not_modified" in required("NotModified")
    # These are left out when they say nothing.
    assert "replaced" not in required("Subscribed")
    assert not required("Origin")
    # What a client sends as well keeps its defaults.
    assert required("AppendParams") == {"session_id"}
    assert not required("Expected")


def test_no_type_has_the_name_of_one_that_typescript_clients_are_given_besides() -> None:
    text = (REPOSITORY / CHECKED_IN["typescript"]).read_text()
    names = re.findall(r"^export (?:interface|type) (\w+)", text, re.MULTILINE)
    assert len(set(names)) == len(names)
    assert set(SCHEMA["$defs"]) - {"Params"} <= set(names)


def test_a_type_for_typescript_has_the_members_of_its_parent_by_name() -> None:
    text = FORMATS["typescript"]()
    heads = re.findall(
        r"^export interface (\w+) extends (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL
    )
    members = {name: own for name, _, own in heads}
    parents = {name: parent for name, parent, _ in heads}
    assert members["SessionInfoSent"] == "  title?: string | null;\n"
    assert parents["SessionInfoSent"] == "SessionInfoEntry"
    for name, parent in parents.items():
        inherited = SCHEMA["$defs"][parent]["properties"]
        assert inherited.items() <= SCHEMA["$defs"][name]["properties"].items(), name
        assert not set(re.findall(r"^  (\w+)\??:", members[name], re.MULTILINE)) & set(inherited), (
            name
        )


@pytest.mark.parametrize("part", ["params", "result"])
def test_what_transcripts_send_and_get_follows_the_schema(part: str) -> None:
    seen: set[str] = set()
    for lines in transcripts():
        for request, answer in answered(lines):
            name = NAMES.get(request["method"])
            if name is None or "result" not in answer:
                continue
            value = (request.get("params") or {}) if part == "params" else answer["result"]
            validator(SCHEMA["methods"][name][part]).validate(value)
            seen.add(name)
    assert seen == set(SCHEMA["methods"])


def test_what_transcripts_are_told_follows_the_schema() -> None:
    seen: set[str] = set()
    for lines in transcripts():
        for _, message in messages("<", lines):
            if "method" in message:
                told = "client_requests" if "id" in message else "notifications"
                validator(SCHEMA[told][message["method"]]["params"]).validate(message["params"])
                seen.add(message["method"])
    assert {"session/event", "session/synced", "server/draining", *CLIENT_REQUESTS} <= seen


def test_what_transcripts_are_refused_with_is_in_the_schema() -> None:
    kinds = {error["code"]: error["kind"] for error in SCHEMA["errors"]}
    seen: set[str] = set()
    for lines in transcripts():
        for _, message in messages("<", lines):
            if "error" in message:
                error = message["error"]
                assert error["data"]["kind"] == kinds[error["code"]]
                assert isinstance(error["data"]["retryable"], bool)
                seen.add(error["data"]["kind"])
    # What takes a second process, a full table, a bug, the end of the daemon, another key or a damaged
    # file of secrets is tested elsewhere.
    elsewhere = {"internal", "overloaded", "session_locked", "draining"}
    elsewhere |= {"secret_key_unavailable", "secret_corrupt"}
    assert set(kinds.values()) - seen == elsewhere


def test_whatever_is_sent_is_strict_json_rpc() -> None:
    seen: set[frozenset[str]] = set()
    for lines in transcripts():
        for _, message in messages("<", lines):
            assert message["jsonrpc"] == "2.0"
            assert next(iter(message)) == "jsonrpc"
            seen.add(frozenset(message) - {"jsonrpc"})
            if "error" in message:
                assert set(message["error"]) == {"code", "message", "data"}
    assert seen == {
        frozenset({"id", "result"}),
        frozenset({"id", "error"}),
        frozenset({"method", "params"}),
        frozenset({"id", "method", "params"}),
    }


def test_what_a_refusal_brings_is_in_the_row_of_its_kind() -> None:
    page = (REPOSITORY / "protocol.md").read_text()
    rows = dict(re.findall(r"^\| -\d+ \| (\w+) \|(.*)$", page, re.MULTILINE))
    for lines in transcripts():
        for _, message in messages("<", lines):
            data = message.get("error", {}).get("data", {})
            told = rows.get(data.get("kind"), "")
            missing = [
                name for name in data if name not in told and name not in {"kind", "retryable"}
            ]
            assert not missing, (
                f"{data['kind']} brings {missing}, its row in protocol.md does not say so"
            )


def test_entries_that_are_appended_follow_the_schema() -> None:
    seen: set[str] = set()
    for lines in transcripts():
        for request, answer in answered(lines):
            params = request.get("params") or {}
            if NAMES.get(request["method"]) != "session/append" or "result" not in answer:
                continue
            for entry in params.get("entries") or [e for e in [params.get("entry")] if e]:
                if entry["type"] in SCHEMA["entries"] and "title" not in entry:
                    validator(SCHEMA["entries"][entry["type"]]).validate(entry)
                    seen.add(entry["type"])
    assert {"message", "custom", "label", "leaf", "session_info"} <= seen


@pytest.mark.parametrize(
    ("entry", "is_taken"),
    [
        ({"type": "message", "message": {"role": "user"}}, True),
        ({"type": "my.note", "anything": [1]}, True),
        ({"type": "message", "message": {"role": "user"}, "atom": [[[]], 10001]}, False),
        ({"type": "my.note", "atom": [1, 2]}, False),
        ({"type": "my.note", "atom_of": "session-1"}, False),
        ({"type": "my.note", "head": "main"}, False),
        ({"type": "my.note", "seq": 1}, False),
        ({"type": "custom", "custom_type": "x", "parent_id": None}, False),
        ({"type": "compaction", "tokens_before": "many"}, False),
        ({"type": "session_header"}, False),
        ({"type": "session"}, False),
    ],
)
def test_the_schema_takes_the_entries_that_the_daemon_takes(
    entry: dict[str, Any], is_taken: bool
) -> None:
    assert validator(SCHEMA["$defs"]["SentEntry"]).is_valid(entry) is is_taken
    with contextlib.nullcontext() if is_taken else pytest.raises(SessiondError):
        parse_entry(Raw(json.dumps(entry).encode()), "entry")
