"""Images that every provider's API accepts: PNG, JPEG, GIF or WebP, inline or by web address.

Law: the first bytes of an image decide on its type, not the declared type, since an API looks at
the bytes too and refuses the whole request. An image that no API accepts is no picture.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from sessiond.model.parsed_message import Block

# The first bytes of each type in base64, as far as they do not depend on the next bytes.
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
    """An image: either its bytes in base64 with their type, or its web address."""

    mime_type: str = ""
    data: str = ""
    url: str = ""


def picture_in(block: Block) -> Picture | None:
    """Return a block's picture; None for any other block and for an image that no API accepts."""
    if block.kind != "image":
        return None
    if block.data:
        said = block.mime_type.lower()
        begun = next((kind for begin, kind in _BEGINNINGS if block.data.startswith(begin)), None)
        kind = begun or _ALSO_CALLED.get(said, said)
        return Picture(kind, block.data) if kind in _TAKEN else None
    return Picture(url=block.url) if block.url.lower().startswith(_ON_THE_WEB) else None
