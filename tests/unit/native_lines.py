"""Lines of the native dialect, read and written for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
# Any value that JSON can hold, spelled the way Python spells it.
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def line_of(**members: Any) -> bytes:
    return json.dumps({"id": "e1", **members}, separators=(",", ":")).encode()
