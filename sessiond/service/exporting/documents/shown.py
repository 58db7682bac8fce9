"""An entry as a page shows it: texts alone, each without characters that act on a screen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from sessiond.dialects.lenient_json import lenient, text
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.row import MESSAGE_KINDS, TYPE_OF_KIND, Kind
from sessiond.model.usage import Usage
from sessiond.model.working.annotations import CHANNEL, Channel, channel_of
from sessiond.service.exporting.documents.parts import (
    Part,
    data_part,
    message_parts,
    text_part,
)
from sessiond.service.exporting.documents.source import DocumentSource
from sessiond.service.exporting.documents.visible import one_line
from sessiond.visible import counted

_CHARS: Final = 200
_OWN: Final = "sessiond."
_PREVIEW_CHARS: Final = 80
_ANCHOR_CHARS: Final = 200
_SPEAKERS: Final[Mapping[int, str]] = {
    Kind.USER: "User",
    Kind.ASSISTANT: "Assistant",
    Kind.TOOL: "Tool",
    Kind.CUSTOM_MESSAGE: "Extension",
    Kind.BRANCH_SUMMARY: "Summary of a branch",
    Kind.COMPACTION: "Compaction",
    Kind.THINKING: "Thinking level",
    Kind.MODEL: "Model",
    Kind.CUSTOM: "Data of an extension",
    Kind.CONTEXT_EDIT: "Edit of the context",
}
_WORDS: Final[Mapping[int, str]] = {
    Kind.USER: "user",
    Kind.ASSISTANT: "assistant",
    Kind.TOOL: "tool",
    Kind.COMPACTION: "summary",
    Kind.BRANCH_SUMMARY: "summary",
}
"""Classes of style; "event" for every other kind."""


class Shown(Struct, frozen=True):
    """Texts of an entry."""

    seq: int
    id: str
    anchor: str
    word: str
    speaker: str
    time: str
    about: str
    """Model, usage and the like, in one line."""
    label: str
    preview: str
    parts: list[Part]
    notes: list[str] = []
    """Lines that stand between the name and the parts."""


def anchor_of(source: DocumentSource, seq: int) -> str:
    """Return the name of an entry in links: its id, with other characters than A-Z a-z 0-9 _ . - as ~XX.

    Of several entries with one id the earlier ones, and entries with a long id, are named by seq.
    """
    entry_id = source.session.names[seq]
    spelled = re.sub(rb"[^A-Za-z0-9_.-]", _as_hex, _bytes_of(entry_id))
    if len(spelled) > _ANCHOR_CHARS or source.session.ids.get(entry_id) != seq:
        return f"line-{seq}"
    return f"entry-{spelled.decode()}"


def _as_hex(byte: re.Match[bytes]) -> bytes:
    return f"~{byte[0][0]:02X}".encode()


def _bytes_of(entry_id: str) -> bytes:
    return entry_id.encode(errors="surrogatepass")


def show(source: DocumentSource, seq: int, line: bytes, label: str = "") -> Shown:
    """Return an entry's texts from its line."""
    kind = source.session.kinds[seq]
    message = source.dialect.reading(line) if kind in MESSAGE_KINDS else None
    if message is not None:
        parts, about = message_parts(message), _about(message)
        speaker = _SPEAKERS.get(kind) or one_line(message.role, _CHARS) or "Message"
    else:
        parts, about = _other_parts(source, kind, line)
        ours = _ours(source, line) if kind == Kind.CUSTOM else None
        speaker = ours or _SPEAKERS.get(kind) or "Entry"
    return Shown(
        seq=seq,
        id=one_line(source.session.names[seq], _CHARS),
        anchor=anchor_of(source, seq),
        word=_WORDS.get(kind, "event"),
        speaker=speaker,
        time=one_line(source.dialect.timestamp(line), _CHARS),
        about=about,
        label=one_line(label, _CHARS),
        preview=one_line(source.dialect.preview(line), _PREVIEW_CHARS),
        notes=[
            one_line(f"{name}: {_said(value)}", _CHARS * 5)
            for name, value in source.annotations(seq).items()
        ],
        parts=[part for part in parts if part.text or part.kind in {"call", "result"}],
    )


def _ours(source: DocumentSource, line: bytes) -> str | None:
    """Return what an entry of sessiond's own is called, "Decision" or "Task"; None for an extension's."""
    word = text(lenient(source.dialect.wire(line)).get("custom_type")) or ""
    return word.removeprefix(_OWN).capitalize() if word.startswith(_OWN) else None


def _said(value: Any) -> str:
    """Return a value of an annotation in one line: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _about(message: ParsedMessage) -> str:
    told = [message.model_id or "", _used(message.usage)]
    if message.stop_reason in {"error", "aborted", "length", "max_tokens"}:
        told.append(message.stop_reason)
    return one_line(" · ".join(filter(None, told)), _CHARS)


def _used(usage: Usage | None) -> str:
    if usage is None or not usage.total_tokens:
        return ""
    cost = f", {usage.cost:.4f} US dollars" if usage.cost else ""
    return f"{counted(usage.total_tokens, 'token')}{cost}"


def _other_parts(source: DocumentSource, kind: int, line: bytes) -> tuple[list[Part], str]:
    """Return the parts of an entry that is no message, and what stands beside its name."""
    fields = lenient(source.dialect.wire(line))
    match kind:
        case Kind.COMPACTION | Kind.BRANCH_SUMMARY:
            summary = source.dialect.summary(line).text
            parts = [data_part("messages", fields.get("messages"))]
            return ([text_part(summary)] if summary is not None else parts), _sizes(fields)
        case Kind.MODEL:
            names = (text(fields.get("provider")), text(fields.get("model_id")))
            return [], one_line(" / ".join(filter(None, names)), _CHARS)
        case Kind.THINKING:
            return [], one_line(source.dialect.thinking_level(line), _CHARS)
        case Kind.CUSTOM_MESSAGE:
            content = source.dialect.read(b'{"role":"user","content":%s}' % _content(fields))
            parts = [] if content is None else message_parts(content)
            return parts, one_line(text(fields.get("custom_type")) or "", _CHARS)
        case Kind.CUSTOM:
            word = text(fields.get("custom_type")) or ""
            channel = channel_of(fields.get("data")) if word == CHANNEL else None
            if channel is not None:
                return [], one_line(_place(channel), _CHARS)
            return [data_part("data", fields.get("data"))], one_line(word, _CHARS)
        case _:
            word = TYPE_OF_KIND.get(kind) or text(fields.get("type")) or ""
            return [data_part("entry", source.dialect.wire(line))], one_line(word, _CHARS)


def _place(channel: Channel) -> str:
    """Return a channel in one line."""
    told = (("chat", channel.chat_id), ("user", channel.user_id))
    more = [f"{name} {value}" for name, value in told if value is not None]
    return ", ".join([f"channel: {channel.name}", *more])


def _content(fields: Mapping[str, Raw]) -> bytes:
    return bytes(fields.get("content") or b'""')


def _sizes(fields: Mapping[str, Raw]) -> str:
    before, after = fields.get("tokens_before"), fields.get("tokens_after")
    told = [
        f"{name} {one_line(bytes(raw).decode(errors='replace'), 20)} tokens"
        for name, raw in (("before:", before), ("after:", after))
        if raw is not None and bytes(raw) != b"null"
    ]
    return ", ".join(told)
