"""Generated parts of the TypeScript client: a method for each of the daemon's, and facts.

Law: a program writes everything that the schema can say. Names are those of the Python client, in
the spelling of TypeScript.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from sessiond import __version__
from sessiond.errors import TooLarge
from sessiond.limits import FRAME_BYTES_MAX, SUMMARY_BYTES_MAX
from sessiond.methods import METHODS
from sessiond.schema.python.calls import NO_METHOD
from sessiond.schema.python.facts import aliases, checks, repeatable, repeated
from sessiond.schema.python.methods import helper_name
from sessiond.schema.shapes import summary_of
from sessiond.schema.typescript import FORMS, comment

FOLDER: Final = "clients/typescript/src/generated"

_HEAD: Final = "// Generated from the types of the protocol; run: make schema\n"


def _facts_text() -> str:
    """Return the module of the facts that the client decides by."""
    return (
        f"{_HEAD}\n/** Methods by their short names. */\n"
        f"export const ALIASES: {_texts(aliases())};\n\n"
        "/** The calls that show what mutations change, by the mutations. */\n"
        f"export const CHECKS: {_texts(checks())};\n\n"
        "/** Mutations that entry ids or an idempotency_key name: such a one is done once. */\n"
        f"export const KEYED: {_list(repeated('keyed'))};\n\n"
        "/** Methods that change nothing: to do one twice is to do it once. */\n"
        f"export const READS: {_list(repeatable())};\n\n"
        "/** Mutations that are done once if they are done twice. */\n"
        f"export const SAFE: {_list(repeated('safe'))};\n\n"
        f"/** A longer frame is refused. */\nexport const REQUEST_BYTES_MAX = {FRAME_BYTES_MAX};\n\n"
        f"/** A longer summary is refused. */\nexport const SUMMARY_BYTES_MAX = {SUMMARY_BYTES_MAX};\n\n"
        f"/** The code of the refusal of a frame. */\nexport const TOO_LARGE = {TooLarge.code};\n\n"
        "/** Version of the daemon whose protocol this client has. */\n"
        f'export const VERSION = "{__version__}";\n'
    )


def _texts(values: dict[str, str]) -> str:
    """Return the type and the value of a record of texts."""
    pairs = "".join(f'  "{name}": "{value}",\n' for name, value in values.items())
    return f"Readonly<Record<string, string>> = {{\n{pairs}}}"


def _list(names: list[str]) -> str:
    """Return the type and the value of a list of texts."""
    return "readonly string[] = [\n" + "".join(f'  "{name}",\n' for name in names) + "]"


def _methods_text() -> str:
    """Return the class with a method for each of the daemon's."""
    body = "".join(
        _method(method.name, comment(_sentence(summary_of(method)), "  "))
        for method in METHODS
        if method.name not in NO_METHOD
    )
    return (
        f'{_HEAD}\nimport type * as wire from "../../protocol.js";\n'
        'import type { CallOptions } from "../call.js";\n\n'
        "type Params<M extends wire.Method> = wire.Params<M>;\n"
        "type Result<M extends wire.Method> = wire.Result<M>;\n\n"
        "/** A method for each of the daemon's; parameters and results are those of the protocol. */\n"
        "export abstract class Methods {\n"
        "  protected abstract ask(method: string, params: object, options?: CallOptions): Promise<unknown>;\n\n"
        "  /** Call a method by its name on the wire. */\n"
        "  call<M extends wire.Method>(method: M, params: Params<M>, options?: CallOptions): Promise<Result<M>> {\n"
        "    return this.ask(method, params, options) as Promise<Result<M>>;\n  }\n\n"
        "  /** Call a method that a newer daemon has and this client does not know. */\n"
        "  callAny(method: string, params: object, options?: CallOptions): Promise<unknown> {\n"
        "    return this.ask(method, params, options);\n  }\n"
        f"{body}}}\n"
    )


def _method(method: str, told: str) -> str:
    words = helper_name(method).rstrip("_").split("_")
    name = words[0] + "".join(word.capitalize() for word in words[1:])
    kind = f'Params<"{method}">'
    blank = " = {}" if _needs_nothing(method) else ""
    forms = [
        (f"{kind} & {form}", f"wire.{result}") for named, form, result in FORMS if named == method
    ]
    optional = "?" if blank else ""
    declared = "".join(
        f"  {name}(params: {taken}, options?: CallOptions): Promise<{result}>;\n"
        for taken, result in forms
    )
    if forms:
        declared += f'  {name}(params{optional}: {kind}, options?: CallOptions): Promise<Result<"{method}">>;\n'
    declared += (
        f"  {name}(params: {kind}{blank}, options?: CallOptions): "
        + ("Promise<any>" if forms else f'Promise<Result<"{method}">>')
        + f' {{\n    return this.call("{method}", params, options);\n  }}\n'
    )
    return f"\n{told}{declared}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _needs_nothing(method: str) -> bool:
    """Tell whether a method can be called without parameters."""
    kind = next(one.params for one in METHODS if one.name == method)
    return not any(field.required for field in msgspec.structs.fields(kind))


FILES: Final[dict[str, Callable[[], str]]] = {"facts.ts": _facts_text, "methods.ts": _methods_text}
"""Text of each file, by its name in the folder; equal in every run."""
