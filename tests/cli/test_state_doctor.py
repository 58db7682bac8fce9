"""The doctor on the state store and the secrets: bad files are findings, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

from sessiond.cli.offline.examined_state import examine_state
from sessiond.cli.options import DaemonPlace
from sessiond.journal.profile.layout import Layout
from tests.kit.state import a_document


def test_each_bad_file_is_a_finding_and_good_ones_are_counted(home: Path) -> None:
    layout = Layout(home)
    place = DaemonPlace(None, None, str(home))
    assert list(examine_state(place)) == []
    for folder in (layout.state, layout.secrets):
        folder.mkdir(parents=True)
    secret = a_document("api").replace(b"sessiond_state", b"sessiond_secrets")
    content = {
        layout.state / "good.json": a_document("good"),
        layout.state / "bad.json": b"{",
        layout.state / "newer.json": a_document("newer", version=2),
        layout.state / "old.json.aside-2026-01-15T10-30-00-000000": b"x",
        layout.state / "any name": b"x",
        layout.secrets / "api.json": secret,
        layout.secrets / "open.json": a_document("open"),
    }
    for path, data in content.items():
        path.write_bytes(data)
    found = list(examine_state(place))
    assert [(one.check, one.ok) for one in found] == [
        *[("state", False)] * 3,
        ("state", True),
        ("secrets", False),
        ("secrets", True),
    ]
    told = " ".join(one.what for one in found)
    for name in ("bad.json", "newer.json", "old.json.aside", "open.json"):
        assert name in told
    assert "any name" not in told
    assert {path: path.read_bytes() for path in content} == content
