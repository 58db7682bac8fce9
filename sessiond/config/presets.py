"""Presets of retention: the values of several keys under one name.

Law: a preset is below every source that names a key, and above the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

RetentionPreset = Literal["none", "nova"]

# Nova deletes sessions after a day, by a thread of its own, and holds 100 sessions. Here the 101st
# open session closes another one in memory, and old sessions go to the trash.
RETENTION_PRESETS: Final[Mapping[RetentionPreset, Mapping[str, Any]]] = {
    "none": {},
    "nova": {"retention.max_age_hours": 24.0, "limits.open_sessions": 100},
}
