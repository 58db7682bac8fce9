"""tests/conformance/README.md: what the page of the kit tells authors of clients."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "tests" / "conformance" / "README.md").read_text("utf-8")
CLIENTS_PAGE: Final = (ROOT / "docs" / "clients.md").read_text("utf-8")


def test_an_event_that_the_daemon_never_sends_is_said_to_come_from_the_client() -> None:
    schema = json.loads((ROOT / "protocol.schema.json").read_bytes())
    events = set(re.findall(r'"method": "(session/\w+)", "params"', PAGE))
    made_up = events - set(schema["notifications"]) - set(schema["methods"])
    assert made_up == {"session/flushed"}
    for name in made_up:
        assert f"The daemon sends no `{name}`" in PAGE


def test_the_step_of_an_event_names_the_request_to_send() -> None:
    (row,) = re.findall(r"^\| `flush` \|.*$", PAGE, re.MULTILINE)
    assert "send `session/flush`" in row


def test_both_pages_name_the_python_that_the_kit_needs() -> None:
    (needed,) = re.findall(r"`run\.py` runs them \((Python [\d.]+),", PAGE)
    (proof,) = re.findall(r"^## 7\..*?^## 8\.", CLIENTS_PAGE, re.MULTILINE | re.DOTALL)
    assert needed in proof
