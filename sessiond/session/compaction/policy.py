"""Compaction policy: when a context is too large, and how much of it is kept.

Law: pure. A session's own setting comes first, then the preset that the session names, then the
configuration, then the preset that the configuration names, then the one of the program whose file
holds the session. To add a preset, add one line to
`PRESETS` and the name to `model/settings.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from sessiond.model.row import Rules
from sessiond.model.settings import CompactionSettings, PresetName
from sessiond.session.compaction.file_lists import ListFiles, activity, tagged, with_lists
from sessiond.session.compaction.touched_files import FileTools, TouchedFiles
from sessiond.session.context.tokens import BYTES, CHARACTERS, Estimator

CONTEXT_WINDOW: Final = 200_000


class Preset(Struct, frozen=True):
    """Compaction figures and rules of one of the replaced systems."""

    reserve_tokens: int
    keep_recent_tokens: int
    estimator: Estimator = CHARACTERS
    keeps: Literal["about", "at least"] = "about"
    """About the budget, which a cut that would fall on a result misses, or never less than the budget."""
    keep_tokens_min: int = 0
    messages_min: int = 0
    """Smallest number of messages for which a compaction is recommended."""
    marker: str = ""
    """Text that a summary begins with."""
    files: FileTools = FileTools(frozenset({"read"}), frozenset({"write", "edit"}))
    list_files: ListFiles = tagged
    """Function that writes the lists of files behind a summary."""


PRESETS: Final[Mapping[PresetName, Preset]] = {
    "pi": Preset(16_384, 20_000),
    "operator": Preset(8_192, 16_384),
    "piglet": Preset(16_384, 20_000, messages_min=8),
    "sharur": Preset(
        2_048,
        8_192,
        estimator=BYTES,
        keeps="at least",
        keep_tokens_min=512,
        marker="<!-- sharur-summary -->",
        files=FileTools(
            frozenset({"read", "ls", "grep", "find"}),
            frozenset({"write", "edit", "replace_file_content", "multi_replace_file_content"}),
            ("path", "TargetFile", "target"),
            apart=False,
        ),
        list_files=activity,
    ),
}


class Policy(Struct, frozen=True):
    """The compaction policy in force for one session."""

    enabled: bool
    reserve_tokens: int
    keep_recent_tokens: int
    context_window: int
    preset: Preset
    auto: bool = False
    """True if the daemon compacts the session unasked."""
    tokenizer: str | None = None
    """Name of a plugged-in tokenizer; None for the preset's own estimate."""

    def should_compact(self, tokens: int, window: int, messages: int) -> bool:
        """Return whether a context of so many tokens and messages leaves less than the reserve."""
        if not self.enabled or messages < self.preset.messages_min:
            return False
        return tokens > window - self.reserve_tokens


def policy_of(own: CompactionSettings, usual: CompactionSettings, dialect: str) -> Policy:
    """Return the policy that a session's own settings, the configured ones and those of its program give."""
    named = own.preset or usual.preset or dialect
    # Another program's dialect names no preset.
    preset = next((PRESETS[name] for name in PRESETS if name == named), PRESETS["pi"])
    # A session that names a preset gets its figures, not those configured for other sessions.
    fallback = usual if own.preset is None else CompactionSettings()
    return Policy(
        enabled=bool(_first(own.enabled, usual.enabled, usual=True)),
        reserve_tokens=_first(
            own.reserve_tokens, fallback.reserve_tokens, usual=preset.reserve_tokens
        ),
        keep_recent_tokens=_first(
            own.keep_recent_tokens, fallback.keep_recent_tokens, usual=preset.keep_recent_tokens
        ),
        context_window=_first(own.context_window, usual.context_window, usual=CONTEXT_WINDOW),
        preset=preset,
        auto=bool(_first(own.auto, usual.auto, usual=False)),
        tokenizer=own.tokenizer or usual.tokenizer,
    )


def stored_summary(
    summary: str, files: TouchedFiles, rules: Rules, preset: Preset, *, of_branch: bool = False
) -> str:
    """Return a summary as a file keeps it: with the lists of files, unless a context shows them by itself.

    No context shows lists behind the summary of a branch by itself.
    """
    if rules.shows_files and not of_branch:
        return summary
    spelling = preset if rules.file_lists is None else PRESETS[rules.file_lists]
    return with_lists(summary, spelling.list_files(files))


def _first(own: int | None, other: int | None, *, usual: int) -> int:
    if own is not None:
        return own
    return usual if other is None else other
