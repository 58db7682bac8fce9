"""The rules of providers, which stand in tests/kit, under the name by which other rooms import them."""

from __future__ import annotations

from tests.kit.provider_rules import anthropic_troubles, openai_troubles

__all__ = ["anthropic_troubles", "openai_troubles"]
