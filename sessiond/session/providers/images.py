"""Images as every provider's API takes them: PNG, JPEG, GIF or WebP, here or on the web.

Law: what the bytes begin with is believed over what was said of them, since an API looks at them
too and refuses the whole request. What none takes is no picture.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from sessiond.model.parsed_message import Block

__all__ = ["Picture", "picture_in"]

# The first bytes of each, in base64, as far as they do not depend on what follows.
_BEGINNINGS: Final = (
    ("iVBORw0KGg", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGODdh", "image/gif"),
    ("R0lGODlh", "image/gif"),
    ("UklGR", "image/webp"),
)
_ALSO_CALLED: Final = {"image/jpg": "image/jpeg"}
_TAKEN: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_ON_THE_WEB: Final = ("https://", "http://")


class Picture(Struct, frozen=True):
    """Either the bytes in base64 with their type, or where they are."""

    mime_type: str = ""
    data: str = ""
    url: str = ""


def picture_in(block: Block) -> Picture | None:
    """The picture that a block is; None for any other block, and for one that nobody takes."""
    if block.kind != "image":
        return None
    if block.data:
        said = block.mime_type.lower()
        begun = next((kind for begin, kind in _BEGINNINGS if block.data.startswith(begin)), None)
        kind = begun or _ALSO_CALLED.get(said, said)
        return Picture(kind, block.data) if kind in _TAKEN else None
    return Picture(url=block.url) if block.url.lower().startswith(_ON_THE_WEB) else None
