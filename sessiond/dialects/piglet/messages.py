"""The shape of piglet's messages, which piglet's decoder requires.

A block has no type: its members tell what it is. A block may name its type too, as piglet's own
document does, if the name agrees with the members.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.errors import EntryInvalid
from sessiond.model.times import is_rfc3339

_Text = str | None


class _Block(Struct, gc=False):
    type: _Text = None
    id: _Text = None
    name: _Text = None
    arguments: dict[str, Raw] | None = None
    thinking: _Text = None
    text: _Text = None
    data: _Text = None
    mimeType: _Text = None  # noqa: N815 - as piglet spells it

    @property
    def kind(self) -> str:
        """Kind of block that piglet reads."""
        if self.id or self.name:
            return "toolCall"
        if self.thinking:
            return "thinking"
        return "image" if self.mimeType else "text"


class _Usage(Struct, gc=False):
    inputTokens: int | None = None  # noqa: N815
    outputTokens: int | None = None  # noqa: N815
    cacheReadTokens: int | None = None  # noqa: N815
    cacheWriteTokens: int | None = None  # noqa: N815
    cost: float | None = None


class _User(Struct, gc=False):
    content: _Text = None
    blocks: list[_Block] | None = None
    timestamp: _Text = None


class _Assistant(Struct, gc=False):
    content: list[_Block]
    model: _Text = None
    provider: _Text = None
    usage: _Usage | None = None
    stopReason: _Text = None  # noqa: N815
    error: _Text = None
    timestamp: _Text = None


class _Result(Struct, gc=False):
    toolCallId: str  # noqa: N815
    toolName: str  # noqa: N815
    content: list[_Block]
    isError: bool | None = None  # noqa: N815
    timestamp: _Text = None


_SHAPES: Final[dict[str, type[_User | _Assistant | _Result]]] = {
    "user": _User,
    "assistant": _Assistant,
    "toolResult": _Result,
}
_KINDS: Final = {
    "text": "text",
    "thinking": "thinking",
    "image": "image",
    "toolCall": "toolCall",
    "tool_call": "toolCall",
    "tool_use": "toolCall",
}
_KINDS_OF_ROLE: Final = {
    "user": {"text", "image"},
    "assistant": {"text", "thinking", "toolCall"},
    "toolResult": {"text", "image"},
}
_BASE64: Final = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_PLACE: Final = r"(?s)(.*?) - at `\$(.*)`"


def require_shape(message: Raw, role: str, path: str) -> None:
    """Raise EntryInvalid, which names the place, unless piglet reads the message whole."""
    shape = _SHAPES.get(role)
    if shape is None:
        roles = ", ".join(_SHAPES)
        raise EntryInvalid(f"piglet stores only messages of {roles}", path=f"{path}.role")
    try:
        found = typed.decode(message, shape)
    except msgspec.ValidationError as error:
        raise _not_piglets(str(error), role, path) from None
    except (msgspec.DecodeError, RecursionError):
        raise EntryInvalid("piglet cannot read the message", path=path) from None
    if found.timestamp is not None and not is_rfc3339(found.timestamp):
        raise EntryInvalid("timestamp must be a time of RFC 3339", path=f"{path}.timestamp")
    name = "blocks" if isinstance(found, _User) else "content"
    for index, block in enumerate(
        (found.blocks if isinstance(found, _User) else found.content) or ()
    ):
        _require_block(block, role, f"{path}.{name}[{index}]")


def _not_piglets(said: str, role: str, path: str) -> EntryInvalid:
    found = re.fullmatch(_PLACE, said)
    what, at = (said, "") if found is None else (found[1], found[2])
    if role == "user" and at == ".content":
        what = "a user's content is a text in a piglet file; images go into blocks"
    return EntryInvalid(what[:1].lower() + what[1:], path=f"{path}{at}")


def _require_block(block: _Block, role: str, path: str) -> None:
    kind = block.kind
    said = kind if block.type is None else _KINDS.get(block.type)
    is_empty = not (block.text or block.thinking)
    if said is None or (said != kind and not (said == "thinking" and is_empty)):
        raise EntryInvalid(
            f"piglet would read this block as a {kind}; its blocks are text, thinking, image"
            " (data and mimeType) and toolCall (id, name and arguments)",
            path=path,
        )
    if kind not in _KINDS_OF_ROLE[role]:
        raise EntryInvalid(f"a {role} message of piglet has no {kind} block", path=path)
    if kind == "text" and block.text is None and said == "text":
        raise EntryInvalid("a block must have a text", path=f"{path}.text")
    if kind == "image" and (block.data is None or not re.fullmatch(_BASE64, block.data)):
        raise EntryInvalid("data must be base64", path=f"{path}.data")
