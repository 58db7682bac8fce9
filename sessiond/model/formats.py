"""The names of the formats of session files: the names of the dialects."""

from __future__ import annotations

from typing import Final, Literal, get_args

__all__ = ["FORMATS", "FormatName"]

FormatName = Literal["native", "pi", "operator", "piglet", "sharur"]
FORMATS: Final[tuple[FormatName, ...]] = get_args(FormatName)
