"""The OpenRPC document by the specification's own meta-schema."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from tests.kit.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

DOCUMENT = Path(__file__).resolve().parents[2] / "protocol.openrpc.json"
SHOW = "const m = require(process.argv[1]); console.log(JSON.stringify(m.default ?? m))"
# The schema of schemas, under a name that only the network knows.
ELSEWHERE = "https://meta.json-schema.tools"


def without_elsewhere(schema: Any) -> Any:
    """Return the meta-schema without references to other documents; the test sets the draft."""
    if isinstance(schema, list):
        return [without_elsewhere(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if str(schema.get("$ref", "")).startswith(ELSEWHERE):
        return {}
    members = schema.items()
    return {
        name: without_elsewhere(part) for name, part in members if name not in {"$schema", "$id"}
    }


def test_the_document_passes_the_specifications_meta_schema(node: Path, node_modules: Path) -> None:
    package = node_modules / "@open-rpc" / "meta-schema"
    done = subprocess.run(
        [str(node), "-e", SHOW, str(package)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    rules = without_elsewhere(json.loads(done.stdout))
    document = json.loads(DOCUMENT.read_text())
    assert document["openrpc"] in rules["properties"]["openrpc"]["enum"]
    Draft7Validator(rules).validate(document)
    assert not Draft7Validator(rules).is_valid({**document, "methods": {}})
    for schema in document["components"]["schemas"].values():
        Draft7Validator.check_schema(schema)
