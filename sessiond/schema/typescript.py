"""The protocol as TypeScript declarations in one file without imports.

Every schema becomes a type of its name; `Methods`, `Notifications` and `ErrorCodes` tie names to
types. A keyword of JSON Schema that has no spelling here is an error, not a silent `unknown`.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from sessiond.errors import ERRORS
from sessiond.methods import METHODS
from sessiond.methods.initialize import PROTOCOL_VERSIONS
from sessiond.model.events import NOTIFICATIONS
from sessiond.model.requests import CLIENT_REQUESTS, Asked
from sessiond.schema.error_data import ERROR_DATA
from sessiond.schema.shapes import CLIENT_NOTIFICATIONS, Schema, Shapes, summary_of

__all__ = ["FORMS", "comment", "typescript_text"]

_WIDTH: Final = 100
_PLAIN: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "array": "unknown[]",
    "object": "Record<string, unknown>",
}
# Keywords that a TypeScript type cannot express; a client checks such values itself.
_UNSAID: Final = frozenset(
    {"title", "description", "default", "pattern", "format"}
    | {"minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "minItems", "maxItems"}
)
# Components whose TypeScript cannot be derived from their schemas.
_BY_HAND: Final = {
    "AnyEntry": """\
type Stored<E> = E extends unknown
  ? Omit<E, "id" | "timestamp"> & { id: string; timestamp?: string | number }
  : never;

/**
 * An entry as it is stored, in answers and events. It has an `id`; `parent_id` and `timestamp`
 * are missing only where another program left them out.
 */
export type AnyEntry = Stored<KnownEntry> | (OpaqueEntry & { id: string });
""",
    "OpaqueEntry": """\
declare enum OtherWord {
  any = "any other word",
}

/**
 * A type word that sessiond does not know. It is no plain text, so that a look at `type` tells
 * known entries apart. To send one: `"my.type" as OtherType`.
 */
export type OtherType = OtherWord;

/** An entry of a type that sessiond does not know, kept as it came. */
export interface OpaqueEntry {
  type: OtherType;
  [name: string]: unknown;
}
""",
    "SentEntry": """\
/** Members that only the daemon sets; a client that sends one of them is refused. */
export type PlacedBy = "parent_id" | "head" | "atom" | "atom_of";

type Sent<E> = E extends unknown ? Omit<E, PlacedBy> & { [P in PlacedBy | "seq"]?: never } : never;

/** An entry as a client sends it: `id` and `timestamp` may be left out. */
export type SentEntry =
  | Sent<Exclude<KnownEntry, SessionInfoEntry> | SessionInfoSent>
  | (OpaqueEntry & { [P in PlacedBy | "seq"]?: never });
""",
}
FORMS: Final = (
    ("session/tree", '{ form: "nested" }', "NestedTree"),
    ("session/tree", '{ form: "text" }', "TextTree"),
    ("session/tree", '{ form?: "flat" }', "TreeResult"),
    ("catalog/forest", '{ form: "text" }', "ForestText"),
    ("catalog/forest", '{ form?: "nodes" }', "ForestNodes"),
    ("session/merge", '{ into: "new" }', "CopyResult"),
    ("session/merge", '{ into?: "this" }', "MergedHere"),
    ("session/open", "{ create: true }", "CreateResult"),
    ("session/open", "{ create?: false }", "SessionResult"),
    ("session/build_context", "{ if_none_match?: null }", "BuildContextResult"),
    ("build_context", "{ if_none_match?: null }", "BuildContextResult"),
)
"""Result of a method for each value of a parameter, the default last."""
_ENVELOPES: Final = """\
/** The id of a request; it comes back exactly as it was sent. */
export type Id = string | number | null;

export type Method = keyof Methods;
export type Params<M extends Method> = Methods[M]["params"];
export type Result<M extends Method> = Methods[M]["result"];

/** A request; without `id` it is carried out and never answered. */
export interface Request<M extends Method = Method> {
  jsonrpc?: "2.0";
  id?: Id;
  method: M;
  params?: Params<M>;
}

/** An answer: exactly one of `result` and `error`. */
export type Answer<M extends Method = Method> =
  | { jsonrpc: "2.0"; id: Id; result: Result<M>; error?: never }
  | { jsonrpc: "2.0"; id: Id; error: RpcError; result?: never };

/** A notification of the daemon, told apart by `method`. Ignore methods that are not here. */
export type Notification = {
  [N in keyof Notifications]: { jsonrpc: "2.0"; method: N; params: Notifications[N] };
}[keyof Notifications];

export type ErrorKind = keyof ErrorCodes;

/** A refusal, told apart by `data.kind`; `message` is for people. */
export type RpcError<K extends ErrorKind = ErrorKind> = {
  [P in K]: {
    code: ErrorCodes[P];
    message: string;
    data: { kind: P; retryable: boolean } & ErrorData[P];
  };
}[K];
"""


def typescript_text() -> str:
    """Return the whole file, identical in every run."""
    shapes = Shapes("{name}")
    parts = [
        comment(
            f"The protocol of sessiond, version {PROTOCOL_VERSIONS[0]}. Generated by `sessiond schema --format "
            "typescript`: do not edit. A payload that sessiond does not look into is `unknown`."
        ),
        *(_component(name, shapes) for name in shapes.components),
        _interface(
            "Methods",
            "Methods that a client may call; an alias is a second name of a method.",
            _methods(shapes),
        ),
        _interface(
            "ClientNotifications",
            "Notifications that a client may send; they are never answered.",
            ((name, "", _spell(shapes.of(kind))) for name, kind in CLIENT_NOTIFICATIONS.items()),
        ),
        _interface(
            "Notifications",
            "Notifications that the daemon sends.",
            ((name, "", _spell(shapes.of(kind))) for name, kind in NOTIFICATIONS.items()),
        ),
        _interface(
            "ClientRequests",
            "Requests that the daemon sends to clients that offered to answer them.",
            (
                (name, inspect.getdoc(asked.params) or "", _spell_asked(asked, shapes))
                for name, asked in CLIENT_REQUESTS.items()
            ),
        ),
        _interface(
            "ErrorCodes",
            "The code of every kind of error.",
            ((kind.kind, inspect.getdoc(kind) or "", str(kind.code)) for kind in ERRORS),
        ),
        _interface(
            "ErrorData",
            "Members of each error kind's data besides `kind` and `retryable`.",
            ((kind.kind, "", _spell_data(ERROR_DATA[kind.kind])) for kind in ERRORS),
        ),
        _ENVELOPES,
        _calls(),
    ]
    return "\n".join(parts)


def _methods(shapes: Shapes) -> Iterator[tuple[str, str, str]]:
    for method in METHODS:
        params, result = _spell(shapes.of(method.params)), _spell(shapes.of(method.result))
        told = f"{summary_of(method)} Access: {method.access}."
        yield method.name, told, f"{{ params: {params}; result: {result} }}"
        for alias in method.aliases:
            yield alias, f"Alias of {method.name}.", f'Methods["{method.name}"]'


def _calls() -> str:
    """Return the type of a calling function: a parameter's value decides on the result's type."""
    rows = [
        f'  (method: "{method}", params: Params<"{method}"> & {told}): Promise<{result}>;\n'
        for method, told, result in FORMS
    ]
    rows.append("  <M extends Method>(method: M, params: Params<M>): Promise<Result<M>>;\n")
    told = "A function that calls a method; the parameters decide on the form of the result."
    return f"{comment(told)}export interface Call {{\n{''.join(rows)}}}\n"


def _spell_data(members: dict[str, str]) -> str:
    spelled = [f"{name}: {kind}" for name, kind in members.items()]
    return f"{{ {'; '.join(spelled)} }}" if spelled else "{}"


def _spell_asked(asked: Asked, shapes: Shapes) -> str:
    params, result = _spell(shapes.of(asked.params)), _spell(shapes.of(asked.result))
    return f"{{ params: {params}; result: {result} }}"


def _interface(name: str, told: str, members: Iterable[tuple[str, str, str]]) -> str:
    rows = [f"export interface {name} {{\n"]
    for member, meaning, spelled in members:
        rows.append(comment(meaning, "  ") if meaning else "")
        rows.append(f"  {_member_name(member)}: {spelled};\n")
    return comment(told) + "".join(rows) + "}\n"


def _component(name: str, shapes: Shapes) -> str:
    if name in _BY_HAND:
        return _BY_HAND[name]
    schema, parent = shapes.components[name], shapes.parents.get(name)
    told = comment(schema.get("description", ""))
    if "properties" not in schema:
        return f"{told}export type {_type_name(name)} = {_spell(schema)};\n"
    named, inherited = _type_name(name), frozenset[str]()
    if parent is not None:
        named += f" extends {_type_name(parent)}"
        inherited = frozenset(shapes.components[parent]["properties"])
    return f"{told}export interface {named} {{\n{_members(schema, inherited)}}}\n"


def _members(schema: Schema, inherited: frozenset[str]) -> str:
    rows: list[str] = []
    for member, part in schema["properties"].items():
        if member in inherited:
            continue
        mark = "" if member in schema["required"] else "?"
        default = _json(part["default"]) if "default" in part else ""
        told = ". ".join(
            filter(None, [part.get("description", ""), default and f"Default: {default}."])
        )
        rows.append(comment(told, "  "))
        rows.append(f"  {_member_name(member)}{mark}: {_spell(part)};\n")
    if schema.get("additionalProperties") is True:
        rows.append("  [name: string]: unknown;\n")
    return "".join(rows)


def _spell(schema: Schema) -> str:
    """Return the type expression of a schema."""
    spell = _SPELLINGS.get(frozenset(schema) - _UNSAID)
    assert spell is not None, f"no TypeScript for the schema {schema}"
    return spell(schema)


def _list(schema: Schema) -> str:
    item = _spell(schema["items"])
    return f"({item})[]" if " " in item else f"{item}[]"


# Spellings by the set of a schema's keywords, those of `_UNSAID` aside.
_SPELLINGS: Final[dict[frozenset[str], Callable[[Schema], str]]] = {
    frozenset(): lambda _: "unknown",
    frozenset({"$ref"}): lambda schema: _type_name(schema["$ref"]),
    frozenset({"type"}): lambda schema: _PLAIN[schema["type"]],
    frozenset({"enum"}): lambda schema: " | ".join(map(_json, schema["enum"])),
    frozenset({"anyOf"}): lambda schema: " | ".join(dict.fromkeys(map(_spell, schema["anyOf"]))),
    frozenset({"type", "items"}): _list,
    frozenset({"type", "items", "prefixItems"}): (
        lambda schema: f"[{', '.join(map(_spell, schema['prefixItems']))}]"
    ),
    frozenset({"type", "additionalProperties"}): (
        lambda schema: f"Record<string, {_spell(schema['additionalProperties'])}>"
    ),
}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _type_name(name: str) -> str:
    # A client expects the `Params<M>` of the envelopes under the name Params.
    return "NoParams" if name == "Params" else name


def _member_name(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


def comment(told: str, indent: str = "") -> str:
    """Return a text as a comment above a declaration."""
    if not told:
        return ""
    text = " ".join(told.split()).replace("*/", "* /")
    if len(indent) + len(text) + 7 <= _WIDTH:
        return f"{indent}/** {text} */\n"
    rows = textwrap.wrap(text, _WIDTH - len(indent) - 3, break_on_hyphens=False)
    return "".join([f"{indent}/**\n", *(f"{indent} * {row}\n" for row in rows), f"{indent} */\n"])
