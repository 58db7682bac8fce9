"""A context as it is asked for: mended, or in the shape of a provider. For worker threads."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from sessiond.service.contexts import Context
from sessiond.service.opened import Opened
from sessiond.session.mending import Told, mended
from sessiond.session.shapes import SHAPES

__all__ = ["STORED", "Shape", "Shown", "View", "view_of"]

Shape = Literal["stored", "openai", "anthropic"]


class View(Struct, frozen=True):
    """How a context is to be shown."""

    repair: bool = False
    shape: Shape = "stored"

    @property
    def mark(self) -> str:
        """What tells this view's etags from those of others."""
        if self == STORED:
            return ""
        return f".{self.shape}{'.repaired' if self.repair else ''}"


STORED = View()


class Shown(Struct, frozen=True):
    """Messages as bytes, and the entry each comes from."""

    bodies: list[bytes]
    sources: list[str]


def view_of(opened: Opened, context: Context, view: View) -> Shown:
    """The messages of a context in a view. A message that cannot be read is left out of shapes."""
    told: list[Told] = []
    for source, body in zip(context.sources, context.messages(), strict=False):
        reading = opened.dialect.read(body)
        if reading is not None:
            told.append(Told(source, body, reading))
    if view.repair:
        told = mended(told)
    if view.shape == "stored":
        return Shown([one.body for one in told], [one.source for one in told])
    shown = list(SHAPES[view.shape](told))
    return Shown([body for _, body in shown], [source for source, _ in shown])
