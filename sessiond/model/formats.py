"""The names of the formats of session files: the dialects, and programs that keep whole documents."""

from __future__ import annotations

from typing import Final, Literal, get_args

__all__ = ["FORMATS", "WHOLE_FORMATS", "FormatName", "WholeFormatName"]

FormatName = Literal["native", "pi", "operator", "piglet", "sharur"]
FORMATS: Final[tuple[FormatName, ...]] = get_args(FormatName)
"""Formats of files with a line for each entry: the names of the dialects."""

WholeFormatName = Literal["construct", "nova"]
WHOLE_FORMATS: Final[tuple[WholeFormatName, ...]] = get_args(WholeFormatName)
"""Formats of files that hold a session as one JSON document."""
