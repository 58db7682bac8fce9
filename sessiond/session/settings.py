"""Model, provider and thinking level in force at an entry.

Law: the later line wins, for each of the three. The header comes first. A `session_info` applies to
the whole session, wherever it stands. A model change, an answer that names its model, and a change
of the thinking level apply to the entries below them.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from sessiond.model.row import ModelName
from sessiond.session.index import Session

SETTINGS: Final[tuple[str, ...]] = ("model", "provider", "thinking_level")


class Settings(Struct, frozen=True):
    """Settings in force at an entry; None for a value that was never stated or was cleared."""

    model: str | None
    provider: str | None
    thinking_level: str | None
    stated_at: int = 0
    """Last line among the `session_info` entries that decided; 0 if none did."""

    @property
    def model_name(self) -> ModelName | None:
        """Model with its provider; None without a model."""
        return None if self.model is None else ModelName(self.model, self.provider)


class Stated(Struct, frozen=True):
    """Values that the header and the `session_info` entries state, as of one moment."""

    values: dict[str, Any]
    seqs: dict[str, int]
    """Line that states each value; 0 for the header."""

    @classmethod
    def of(cls, session: Session, model: str | None) -> Stated:
        """Return the values stated now; `model` is the header's."""
        said = {name: session.facts[name] for name in SETTINGS if name in session.facts}
        seqs = {name: session.fact_seqs.get(name, 0) for name in SETTINGS}
        return cls({"model": model} | said, seqs)

    def at(self, session: Session, leaf: int) -> Settings:
        """Return the settings in force at `leaf`; 0 is the place before the first entry."""
        model, level = session.model_refs[leaf], session.thinking_refs[leaf]
        named, thinking = session.setting(model), session.setting(level)
        model_id, provider = None, None
        if isinstance(named, ModelName):
            model_id, provider = named.model_id, named.provider
        decided: list[int] = [0]

        def wins(field: str, seq: int, said: str | None) -> str | None:
            at = self.seqs[field]
            if seq > at:
                return said
            decided.append(at)
            value: str | None = self.values.get(field)
            return value

        return Settings(
            wins("model", model, model_id),
            wins("provider", model, provider),
            wins("thinking_level", level, thinking if isinstance(thinking, str) else None),
            max(decided),
        )
