"""The model and the thinking level that a line of any dialect names."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from sessiond.dialects.lenient_json import text
from sessiond.model.row import ModelName


def model_name(found: Mapping[str, Raw], key: str) -> ModelName | None:
    """Return the model that a member names, with its provider; None for no name."""
    model_id = text(found.get(key))
    return ModelName(model_id, text(found.get("provider")) or None) if model_id else None


def level_name(level: str | None) -> str:
    """Return the thinking level in our words, in which "none" is "off"."""
    return "off" if not level or level == "none" else level
