"""The public surface of sessiond_client as lines of text, one name a line.

Types are resolved before they are spelled, so an alias and what it stands for are one spelling,
and every Python spells a type alike.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Literal, Union, Unpack, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Raw, Struct

import sessiond_client

__all__ = ["surface"]

# Where a program finds the types of parameters, results and events that the package does not export.
MODULES = {
    "copies": "MergePlan MergeSource Merged",
    "events": (
        "After Cursor EntryEvent EntryName Event Flushed Lagged Notice Presence Present"
        " Replaced Signal Synced"
    ),
    "options": (
        "AcquireOptions AppendOptions BranchOptions CompactOptions ConnectOptions"
        " ContextOptions EntriesOptions Hook Json MoveOptions NavigateOptions OfferOptions"
        " PageOptions PathOptions PlanBranchOptions PlanCompactionOptions PresenceOptions"
        " SignalOptions SubscribeOptions Timed TreeOptions UsageOptions"
    ),
    "planning_results": (
        "BranchPlan CompactionPlan Navigated PlanFacts PlannedCompaction PlannedFiles Totals"
        " WindowUsage"
    ),
    "results": (
        "Appended AppendedEntry Created EntryPage Everybody Exported Head Heads Imported"
        " PathPage Reader SessionInfo SessionPage StoredEntry"
    ),
    "session_options": (
        "ContinueOptions CreateOptions ExportOptions ForestOptions ForkOptions ImportOptions"
        " ListOptions MergeOptions OpenOptions RebaseOptions RepairOptions RetentionOptions"
        " SearchOptions TrashOptions UpdateOptions"
    ),
    "tree_results": (
        "Compacted CompactedEntry Context EntriesMeant EntryMeant Label LabelPage Lease Moved"
        " NestedNode Rewound TreeNode TreePage"
    ),
    "upkeep": (
        "Failed Forest ForestNode Hit Hits Problem Repaired Retired TrashPage Trashed Verified"
    ),
}
PROTOCOLS = (
    *("__enter__", "__exit__", "__aenter__", "__aexit__"),
    *("__iter__", "__next__", "__aiter__", "__anext__"),
)
STARS = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}


def surface() -> list[str]:
    """Return the lines: what the package exports, then what its modules of types hold."""
    lines = [f"sessiond_client.{name}" for name in sessiond_client.__all__]
    described = {name: getattr(sessiond_client, name) for name in sessiond_client.__all__}
    for module, names in MODULES.items():
        home = importlib.import_module(f"sessiond_client.{module}")
        for name in names.split():
            lines.append(f"sessiond_client.{module}.{name}")
            described[name] = getattr(home, name)
    for name, value in described.items():
        lines += _lines(name, value)
    return sorted(set(lines))


def _lines(name: str, value: Any) -> Iterator[str]:
    if name == "__version__":
        return
    if not isinstance(value, type):
        is_function = inspect.isfunction(value)
        yield f"{name}{_signature(value)}" if is_function else f"{name} = {_spell(value)}"
    elif issubclass(value, Struct):
        yield _heading(name, value)
        yield from _fields(name, value)
        yield from _members(name, value)
    elif getattr(value, "__total__", None) is not None:
        required_keys: frozenset[str] = getattr(value, "__required_keys__", frozenset())
        for key, hint in get_type_hints(value).items():
            required = " required" if key in required_keys else ""
            yield f"{name}[{key!r}]: {_spell(hint)}{required}"
    else:
        yield _heading(name, value)
        if issubclass(value, Exception):
            yield f"{name}.__init__{_signature(value.__init__)}"
        yield from _members(name, value)


def _heading(name: str, kind: type) -> str:
    """Return the line that says what else an instance is, as far as a program can rely on it."""
    public = {*sessiond_client.__all__, *" ".join(MODULES.values()).split()}
    named = [
        base.__name__
        for base in kind.__mro__[1:]
        if base.__name__ in public or issubclass(base, BaseException)
    ]
    return f"{name} is {', '.join(named) or 'a class'}"


def _fields(name: str, kind: type[Struct]) -> Iterator[str]:
    config = kind.__struct_config__
    hints = get_type_hints(kind)
    parts: list[str] = []
    for field in msgspec.structs.fields(kind):
        default = ""
        if field.default_factory is not NODEFAULT:
            default = f" = {field.default_factory()!r}"
        elif not field.required:
            is_raw = isinstance(field.default, Raw)
            default = f" = {bytes(field.default) if is_raw else field.default!r}"
        spelled = "" if field.name == field.encode_name else f" as {field.encode_name!r}"
        parts.append(f"{field.name}{spelled}: {_spell(hints[field.name])}{default}")
        yield f"{name}.{parts[-1]}"
    # The order of the fields is the order of positional arguments, and of patterns.
    parameters = inspect.signature(kind).parameters.values()
    kw_only = [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    yield f"{name}({', '.join(kind.__struct_fields__)}) frozen={config.frozen} kw_only={kw_only}"


def _members(name: str, kind: type) -> Iterator[str]:
    fields = set(getattr(kind, "__struct_fields__", ()))
    for member in dir(kind):
        found = inspect.getattr_static(kind, member)
        if member in fields or (member.startswith("_") and member not in PROTOCOLS):
            continue
        if member.startswith("_"):
            yield f"{name}.{member} async={inspect.iscoroutinefunction(found)}"
        elif isinstance(found, property | cached_property):
            read = found.fget if isinstance(found, property) else found.func
            assert read is not None
            yield f"{name}.{member} -> {_spell(get_type_hints(read)['return'])}"
        elif inspect.isfunction(found) and found.__module__.startswith("sessiond_client"):
            word = "async " if inspect.iscoroutinefunction(found) else ""
            yield f"{word}{name}.{member}{_signature(found)}"
    for attribute in sorted(_attributes(kind)):
        yield f"{name}.{attribute}"


def _attributes(kind: type) -> set[str]:
    """Return the public attributes that `__init__` sets."""
    found: set[str] = set()
    for base in kind.__mro__:
        init = vars(base).get("__init__")
        if not base.__module__.startswith("sessiond_client") or init is None:
            continue
        if not inspect.isfunction(init):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(init)))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
    return {name for name in found if not name.startswith("_")}


def _signature(function: Callable[..., Any]) -> str:
    hints = get_type_hints(function)
    parts: list[str] = []
    marked = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            marked = "/"
        elif marked == "/":
            parts.append(marked)
            marked = ""
        if parameter.kind is parameter.KEYWORD_ONLY and marked != "*":
            parts.append("*")
            marked = "*"
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        stars = STARS.get(parameter.kind.name, "")
        hint = hints.get(parameter.name)
        spelled = "" if parameter.name not in hints else f": {_spell(hint)}"
        parts.append(f"{stars}{parameter.name}{spelled}{default}")
    return f"({', '.join(parts)}) -> {_spell(hints.get('return'))}"


def _spell(kind: Any) -> str:
    """Return the spelling of a resolved type."""
    if kind is None or kind is type(None):
        return "None"
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"Literal[{', '.join(sorted(map(repr, args)))}]"
    if origin in {Union, types.UnionType}:
        return " | ".join(
            sorted((_spell(one) for one in args), key=lambda one: (one == "None", one))
        )
    if origin is Unpack:
        return _spell(args[0])
    if isinstance(kind, list):
        return f"[{', '.join(map(_spell, kind))}]"
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(_spell, args))}]"
    return getattr(kind, "__name__", str(kind))
