"""The OpenRPC document is one, names everything, and everything that happened follows it.

The rules are those of the specification's version 1.3, spelled out here: what each object must
have, what it may have, and that nothing is there which it has no place for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from sessiond.errors import ERRORS
from sessiond.methods import METHODS
from sessiond.model.events import NOTIFICATIONS
from sessiond.model.requests import CLIENT_REQUESTS
from sessiond.schema import FORMATS, openrpc_bytes
from sessiond.testing.daemon import running_daemon
from tests.protocol.happened import NAMES, answered, messages, transcripts

DOCUMENT: dict[str, Any] = json.loads(FORMATS["openrpc"]())
BY_NAME = {method["name"]: method for method in DOCUMENT["methods"]}

# What an object must have, and what else it may have; `x-` members may be anywhere but in an error.
DOCUMENT_HAS = ({"openrpc", "info", "methods"}, {"servers", "components", "externalDocs"})
INFO_HAS = ({"title", "version"}, {"description", "termsOfService", "contact", "license"})
METHOD_HAS = (
    {"name", "params"},
    {"tags", "summary", "description", "externalDocs", "result", "deprecated", "servers", "errors"}
    | {"links", "paramStructure", "examples"},
)
DESCRIPTOR_HAS = ({"name", "schema"}, {"summary", "description", "required", "deprecated"})
ERROR_HAS = ({"code", "message"}, {"data"})


def assert_has(thing: dict[str, Any], has: tuple[set[str], set[str]]) -> None:
    must, may = has
    assert must <= set(thing)
    assert {name for name in thing if not name.startswith("x-")} <= must | may


def objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, dict | list):
            yield from objects(part)


def validator(schema: dict[str, Any]) -> Draft7Validator:
    return Draft7Validator({**schema, "components": DOCUMENT["components"]})


def params_schema(method: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a request's params, from its content descriptors."""
    return {
        "type": "object",
        "properties": {param["name"]: param["schema"] for param in method["params"]},
        "required": [param["name"] for param in method["params"] if param["required"]],
        "additionalProperties": method["name"] in {"initialize", "initialized"},
    }


def test_it_is_an_openrpc_document() -> None:
    assert_has(DOCUMENT, DOCUMENT_HAS)
    assert_has(DOCUMENT["info"], INFO_HAS)
    assert re.fullmatch(r"1\.3\.\d+", DOCUMENT["openrpc"])
    assert len(BY_NAME) == len(DOCUMENT["methods"])
    for method in DOCUMENT["methods"]:
        assert_has(method, METHOD_HAS)
        assert method["paramStructure"] == "by-name"
        assert method.get("summary", "").endswith(".") or method["name"].startswith("$/")
    for error in DOCUMENT["components"]["errors"].values():
        assert_has(error, ERROR_HAS)
        assert isinstance(error["code"], int)
    assert set(DOCUMENT["components"]) == {"schemas", "errors"}


def test_parameters_are_content_descriptors_the_required_ones_first() -> None:
    for method in (*DOCUMENT["methods"], *DOCUMENT["x-notifications"]):
        names = [param["name"] for param in method["params"]]
        assert len(set(names)) == len(names)
        for descriptor in (*method["params"], *([method["result"]] if "result" in method else [])):
            assert_has(descriptor, DESCRIPTOR_HAS)
        required = [param["required"] for param in method["params"]]
        assert required == sorted(required, reverse=True)


def test_required_is_what_a_request_cannot_do_without() -> None:
    def required(name: str) -> list[str]:
        return [param["name"] for param in BY_NAME[name]["params"] if param["required"]]

    assert required("session/append") == ["session_id"]
    assert required("session/branch") == ["session_id"]
    assert required("session/rewind") == ["session_id", "to"]
    assert required("session/create") == ["cwd"]
    assert required("server/ping") == []


def test_every_reference_leads_somewhere_and_every_schema_is_one() -> None:
    seen: set[str] = set()
    for thing in objects(DOCUMENT):
        if "$ref" in thing:
            start, kind, section, name = thing["$ref"].split("/")
            assert (start, kind) == ("#", "components")
            assert name in DOCUMENT["components"][section]
            assert set(thing) == {"$ref"}
            seen.add(name)
        assert not {"$defs", "prefixItems"} & set(thing), "these are not of draft 7"
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft7Validator.check_schema(schema)
    assert {"SessionInfo", "Expected", "KnownEntry", "invalid_params"} <= seen


def test_it_names_everything() -> None:
    assert list(BY_NAME) == [*(method.name for method in METHODS), "$/cancelRequest"]
    assert "result" not in BY_NAME["$/cancelRequest"]
    for method in METHODS:
        assert BY_NAME[method.name]["x-aliases"] == list(method.aliases)
        assert BY_NAME[method.name]["x-access"] == method.access
    assert [told["name"] for told in DOCUMENT["x-notifications"]] == list(NOTIFICATIONS)
    assert [asked["name"] for asked in DOCUMENT["x-client-requests"]] == list(CLIENT_REQUESTS)
    assert {
        kind: (error["code"], error["data"])
        for kind, error in DOCUMENT["components"]["errors"].items()
    } == {
        error.kind: (error.code, {"kind": error.kind, "retryable": error.retryable})
        for error in ERRORS
    }


def test_what_happened_in_transcripts_follows_it() -> None:
    unasked = [*DOCUMENT["x-notifications"], *DOCUMENT["x-client-requests"]]
    told = {one["name"]: params_schema(one) for one in unasked}
    seen: set[str] = set()
    for lines in transcripts():
        for request, answer in answered(lines):
            if "result" in answer and request["method"] in NAMES:
                method = BY_NAME[NAMES[request["method"]]]
                validator(params_schema(method)).validate(request.get("params") or {})
                validator(method["result"]["schema"]).validate(answer["result"])
                seen.add(method["name"])
        for _, message in messages("<", lines):
            if "method" in message:
                validator(told[message["method"]]).validate(message["params"])
    assert {"session/append", "session/import", "rpc.discover"} <= seen


def test_every_error_that_was_answered_in_transcripts_is_one_that_its_method_lists() -> None:
    seen: set[str] = set()
    for lines in transcripts():
        for request, answer in answered(lines):
            if "error" in answer and request["method"] in NAMES:
                method = BY_NAME[NAMES[request["method"]]]
                kind = answer["error"]["data"]["kind"]
                listed = {error["$ref"].rpartition("/")[2] for error in method["errors"]}
                # What is wrong with the request as such belongs to no method.
                assert kind in listed | {"invalid_request", "parse_error"}, (
                    f"{method['name']}: {kind}"
                )
                seen.add(kind)
    assert {"precondition_failed", "lease_held", "session_exists"} <= seen


async def test_a_daemon_answers_the_document_that_is_checked_in(home: Path) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        assert await wire.call("rpc.discover") == DOCUMENT
        assert openrpc_bytes() is openrpc_bytes()


@pytest.mark.parametrize("name", sorted(DOCUMENT["components"]["schemas"]))
def test_no_mark_of_ours_is_left_in_a_schema(name: str) -> None:
    assert "x-holds" not in json.dumps(DOCUMENT["components"]["schemas"][name])
