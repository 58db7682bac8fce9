"""sessiond: the one owner of agent sessions on a machine."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
