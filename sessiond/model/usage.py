"""The cost of model calls, as messages report it."""

from __future__ import annotations

from msgspec import Struct


class Usage(Struct, frozen=True):
    """Tokens and money; 0 for missing numbers. `total_tokens` is the provider's own sum."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    total_tokens: int = 0
    cost: float = 0.0

    def plus(self, other: Usage) -> Usage:
        """Return the sum of two usages."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.total_tokens + other.total_tokens,
            self.cost + other.cost,
        )
