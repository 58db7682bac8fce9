"""The names of the formats of session files: dialects, whole documents, and other agents' files."""

from __future__ import annotations

from typing import Final, Literal, get_args

FormatName = Literal["native", "pi", "operator", "piglet", "sharur"]
FORMATS: Final[tuple[FormatName, ...]] = get_args(FormatName)
"""Formats of files with a line for each entry: the names of the dialects."""

WholeFormatName = Literal["construct", "nova"]
WHOLE_FORMATS: Final[tuple[WholeFormatName, ...]] = get_args(WholeFormatName)
"""Formats of files that hold a session as one JSON document."""

AgentFormatName = Literal["claude-code", "codex", "gemini-cli", "opencode"]
AGENT_FORMATS: Final[tuple[AgentFormatName, ...]] = get_args(AgentFormatName)
"""Formats of files of other agents, which are only read."""

ROOT_KINDS: Final[tuple[str, ...]] = (*FORMATS, *AGENT_FORMATS)
"""Kinds of roots: the dialect, or the agent, whose program makes the files there."""
