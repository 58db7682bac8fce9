"""Policies in force for the contexts of sessions, and the counters of tokens.

Law: a tokenizer is foreign code. It is loaded on first use, in a worker thread, and an estimate
results in every case: a tokenizer that fails is reported once and replaced by a count of characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType

from sessiond.errors import InvalidParams
from sessiond.model.settings import CompactionSettings, settings_in
from sessiond.scripts import QUARTERS_PER_TOKEN, quarters
from sessiond.service.log.open_session import OpenSession
from sessiond.session.compaction.policy import Policy, policy_of
from sessiond.session.context.tokens import Counted, Estimator


class Tokenizers(Protocol):
    """Installed tokenizers."""

    def names(self) -> Sequence[str]:
        """Return the names of the tokenizers."""
        ...

    def load(self, name: str) -> Callable[[str], int]:
        """Return a function that counts the tokens of a text. Blocks; raises the errors of its code."""
        ...


class _None:
    def names(self) -> Sequence[str]:
        return ()

    def load(self, name: str) -> Callable[[str], int]:
        raise LookupError(name)


NO_TOKENIZERS: Tokenizers = _None()


class Policies:
    """Configured settings, and the sessions' own settings on top of them."""

    def __init__(
        self,
        usual: CompactionSettings | None = None,
        tokenizers: Tokenizers = NO_TOKENIZERS,
        report_trouble: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.usual = usual or CompactionSettings()
        """Configured settings; they may be replaced while the daemon runs."""
        self.redact: Sequence[str] = ()
        """Configured patterns of texts that no document shows; they may be replaced, too."""
        self.model: str | None = None
        """Configured model of new sessions that are created without one; it may be replaced, too."""
        self._tokenizers = tokenizers
        self._report_trouble = report_trouble
        self._counted: dict[str, Counted] = {}

    def of(self, opened: OpenSession) -> Policy:
        """Return the policy in force for a session now."""
        own = opened.compaction
        settings = CompactionSettings() if own is None else settings_in(own)
        return policy_of(settings, self.usual, opened.dialect.name)

    def may_be_automatic(self, opened: OpenSession) -> bool:
        """Return whether the policy may be automatic; a cheap test for every change of a session."""
        given = opened.header.compaction
        return bool(self.usual.auto) or "compaction" in opened.session.facts or given is not UNSET

    def estimator(self, policy: Policy) -> Estimator:
        """Return the estimator of a policy."""
        name = policy.tokenizer
        if name is None:
            return policy.preset.estimator
        if name not in self._counted:
            self._counted[name] = Counted(
                name, _Careful(name, self._tokenizers, self._report_trouble)
            )
        return self._counted[name]

    def require_known(self, settings: CompactionSettings | UnsetType | None) -> None:
        """Raise InvalidParams for a tokenizer that is not installed."""
        name = settings.tokenizer if isinstance(settings, CompactionSettings) else None
        if name is None or name in (names := self._tokenizers.names()):
            return
        there = ", ".join(sorted(names)) or "none"
        raise InvalidParams(
            f"no tokenizer of this name is installed beside sessiond; installed: {there}",
            path="compaction.tokenizer",
        )


class _Careful:
    """Tokenizer that always returns a number."""

    def __init__(
        self, name: str, tokenizers: Tokenizers, report_trouble: Callable[[str], None]
    ) -> None:
        self._name = name
        self._tokenizers = tokenizers
        self._report_trouble = report_trouble
        self._count: Callable[[str], int] | None = None

    def __call__(self, text: str) -> int:
        try:
            if self._count is None:
                self._count = self._tokenizers.load(self._name)
            return int(self._count(text))
        except Exception as failure:  # noqa: BLE001 - foreign code may raise any error
            if self._count is not _by_characters:
                kind = type(failure).__name__
                self._report_trouble(f"tokenizer {self._name} failed ({kind}); characters count")
            self._count = _by_characters
            return _by_characters(text)


def _by_characters(text: str) -> int:
    return -(-quarters(text) // QUARTERS_PER_TOKEN)
