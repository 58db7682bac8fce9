"""The entries of a turn: the request of a user, calls of tools, tokens of its run. Pure.

The names of tools and the figures are those of the SDK's AdvancedSQLiteSession.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, ValidationError

from sessiond_client.openai_agents.foreign import as_list, as_object
from sessiond_client.openai_agents.reading import Step
from sessiond_client.wire import convert

__all__ = [
    "FIGURES",
    "USAGE_TYPE",
    "TurnUsage",
    "item_type",
    "preview",
    "stored_usage",
    "text_of",
    "tool_counts",
    "tool_name",
    "turns_of",
    "usage_of",
    "user_text",
]

USAGE_TYPE: Final = "openai.usage"
FIGURES: Final = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILS: Final = ("input_tokens_details", "output_tokens_details")
_PREVIEW: Final = 100
_SEARCH: Final = "tool_search"
# Hosted tools have no name but their type.
_HOSTED: Final = frozenset(
    f"{name}_call"
    for name in (
        "computer",
        "file_search",
        "web_search",
        "code_interpreter",
        "shell",
        "apply_patch",
    )
)
_OF_SERVERS: Final = frozenset({"mcp_call", "mcp_approval_request"})
_CALLS: Final = (
    _HOSTED | _OF_SERVERS | {"function_call", "custom_tool_call", "tool_call", "tool_search_call"}
)

Json = dict[str, Any]


class TurnUsage(Struct, frozen=True):
    """The tokens of a turn, by the entry that began the turn."""

    turn_id: str
    requests: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: Json | None = None
    output_tokens_details: Json | None = None


def user_text(step: Step) -> str | None:
    """Return the text with which a turn begins; None if the entry begins none."""
    first = as_object(step.items[0] if step.items else None)
    return text_of(first.get("content")) if first.get("role") == "user" else None


def turns_of(steps: Iterable[Step]) -> list[Step]:
    """Return the steps that begin turns."""
    return [step for step in steps if user_text(step) is not None]


def text_of(content: object) -> str:
    """Return the texts of a content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    return " ".join(str(as_object(part).get("text", "")) for part in as_list(content))


def preview(text: str) -> str:
    """Return the beginning of a text."""
    return f"{text[:_PREVIEW]}..." if len(text) > _PREVIEW else text


def item_type(item: object) -> str:
    """Return the role of a message, or the type of any other item."""
    fields = as_object(item)
    return str(fields.get("role") or fields.get("type") or "other")


def tool_name(item: object) -> str | None:
    """Return the tool that an item is about: its name behind its server or namespace, if it has any."""
    fields = as_object(item)
    kind, name = fields.get("type"), fields.get("name")
    if kind in _OF_SERVERS:
        named = [str(part) for part in (fields.get("server_label"), name) if part]
        return ".".join(named) or None
    if kind in ("tool_search_call", "tool_search_output"):
        return _SEARCH
    if kind in _HOSTED:
        return str(kind)
    if name is None:
        return None
    space = fields.get("namespace")
    # The API gives a tool without a namespace its own name for one.
    return str(name) if space in (None, "", name) else f"{space}.{name}"


def tool_counts(items: Iterable[object]) -> Counter[str]:
    """Count the calls of each tool in a turn. An output of a search without a call counts as a call."""
    counts: Counter[str] = Counter()
    outputs = 0
    for item in items:
        kind, name = as_object(item).get("type"), tool_name(item)
        counts[name or ""] += kind in _CALLS
        outputs += kind == "tool_search_output"
    if not counts[_SEARCH]:
        counts[_SEARCH] = outputs
    return +counts


def usage_of(turn_id: str, usage: object) -> TurnUsage:
    """Return the figures of a run for the turn that an entry began."""
    told: Json = {"turn_id": turn_id}
    told |= {name: getattr(usage, name, None) or 0 for name in FIGURES}
    for name in _DETAILS:
        details = getattr(usage, name, None)
        told[name] = None if details is None else vars(details)
    return convert(TurnUsage, told)


def stored_usage(entry: Mapping[str, Any]) -> TurnUsage | None:
    """Return the figures that an entry keeps; None for any other entry."""
    if entry.get("custom_type") != USAGE_TYPE:
        return None
    try:
        return convert(TurnUsage, entry.get("data"))
    except ValidationError:
        return None
