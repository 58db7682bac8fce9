"""The client's helpers: a method of the protocol each, and the parameters that it takes by name."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from sessiond.methods import METHODS
from sessiond.rpc.dispatch import Method
from sessiond.schema.python.calls import (
    ANSWER_OF,
    BY_POSITION,
    CALL_NOTES,
    LEFT_OUT,
    NAME_OF,
    NO_METHOD,
    OPTION_NAMES,
    OPTION_NOTES,
    OPTION_TYPES,
)
from sessiond.schema.python.layout import all_names, bracketed, docstring, header, imports
from sessiond.schema.python.spelling import given, is_nullable, joined
from sessiond.schema.python.structs import HOMES
from sessiond.schema.shapes import Schema, Shapes, summary_of
from sessiond.service.client import Client

_MOVE: Final = ("head", "expected", "lease_id")
_OWN: Final = "sessiond_client.connect_options"


class _Helper(Struct, frozen=True):
    """A method as a helper of the client has it."""

    method: Method[Client, Any]
    params: str
    """The name of the component."""
    by_position: dict[str, str]
    by_name: dict[str, str]
    """Parameters and their types."""
    told: str

    @property
    def options(self) -> str:
        """The name of the type of the parameters that are given by name."""
        if not self.by_name:
            return "Timed"
        return OPTION_NAMES.get(self.params) or self.params.replace("Params", "Options")


def options_text() -> str:
    """Return the module of the parameters that are given by name."""
    kinds: dict[str, list[_Helper]] = {}
    for helper in _helpers({"session/subscribe"}):
        if helper.by_name:
            kinds.setdefault(helper.options, []).append(helper)
    body = "".join(f"\n\n{_options(name, helpers)}" for name, helpers in kinds.items())
    move = (
        "class _Move(Timed, total=False):\n    head: str\n    expected: Json\n    lease_id: str\n"
    )
    body = f"\n\n{move}{body}"
    used = set(re.findall(r"\w+", body))
    told = "The optional parameters of each method, spelled as on the wire; what is left out is not sent."
    standard = imports("collections.abc", used & {"Sequence"})
    standard += imports("typing", used & {"Any", "Literal"})
    own = imports(_OWN, used & {"Json", "Timed"})
    own += imports("sessiond_client.generated.messages", used & {"After"})
    third = imports("msgspec", used & {"Raw"})
    return "\n".join([header(told), standard, third, own, all_names(kinds)]) + body


def _options(name: str, helpers: list[_Helper]) -> str:
    fields = helpers[0].by_name
    assert all(helper.by_name == fields for helper in helpers), name
    is_move = set(_MOVE) <= set(fields)
    rows = "".join(
        f"    {field}: {kind}\n"
        for field, kind in fields.items()
        if not (is_move and field in _MOVE)
    )
    methods = " and ".join(helper.method.name for helper in helpers)
    told = docstring(
        [f"Optional parameters of {methods}.", helpers[0].told, OPTION_NOTES.get(name, "")]
    )
    blank = "\n" if rows else ""
    return f"class {name}({'_Move' if is_move else 'Timed'}, total=False):\n{told}{blank}{rows}"


def methods_text(*, is_async: bool) -> str:
    """Return the module of the helpers, for tasks or for threads."""
    word, kind = ("async ", "Async") if is_async else ("", "Blocking")
    helpers = list(_helpers())
    options = {helper.options for helper in helpers}
    body = f'\n\nclass {kind}Methods(ABC):\n    """A helper for each method of the protocol."""\n\n'
    body += "    @abstractmethod\n" + bracketed(
        f"{word}def _ask",
        ["self", "method: str", "options: Mapping[str, Any]", "/", "**named: Any"],
        " -> Raw:",
        "    ",
    )
    body += docstring(["Return the result of a call; raise its error."], "        ")
    body += "".join(f"\n{_helper(helper, is_async=is_async)}" for helper in helpers)
    used = set(re.findall(r"\w+", re.sub(r'""".*?"""', "", body, flags=re.DOTALL)))
    own = ""
    for home in ("options", "results"):
        homes = HOMES | dict.fromkeys(options - {"Timed"}, "options")
        own += imports(
            f"sessiond_client.generated.{home}", (name for name in used if homes.get(name) == home)
        )
    told = f"The methods of the {'anyio' if is_async else 'blocking'} client."
    standard = imports("abc", ["ABC", "abstractmethod"])
    standard += imports("collections.abc", used & {"Mapping", "Sequence"})
    standard += imports("typing", used & {"Any", "Literal", "Unpack"})
    third = imports("msgspec", used & {"Raw"})
    own = (
        imports(_OWN, used & {"Json", "Timed"})
        + own
        + imports("sessiond_client.wire", ["READ_ANY", "read"])
    )
    return "\n".join([header(told), standard, third, own, all_names([f"{kind}Methods"])]) + body


def _helpers(others: Iterable[str] = ()) -> Iterator[_Helper]:
    components = Shapes("{name}").components
    for method in METHODS:
        if method.name not in NO_METHOD or method.name in others:
            name = method.params.__name__
            yield _helper_of(method, name, components[name])


def _helper_of(method: Method[Client, Any], name: str, schema: Schema) -> _Helper:
    properties: Mapping[str, Schema] = schema["properties"]
    required = {
        *schema["required"],
        *([LEFT_OUT[method.name][0]] if method.name in LEFT_OUT else []),
    }
    by_position = {
        field: joined(given(part)) for field, part in properties.items() if field in required
    }
    by_position |= {
        field: f"{joined(given(properties[field]))} = None"
        for field in BY_POSITION.get(method.name, ())
    }
    by_name = {
        field: _optional(name, field, part)
        for field, part in properties.items()
        if field not in by_position and field != "_meta"
    }
    return _Helper(method, name, by_position, by_name, schema.get("description", ""))


def _optional(owner: str, field: str, schema: Schema) -> str:
    kinds = given(schema)
    if not is_nullable(schema):
        kinds = [kind for kind in kinds if kind != "None"]
    return OPTION_TYPES.get(f"{owner}.{field}") or joined(kinds)


def _helper(helper: _Helper, *, is_async: bool) -> str:
    method = helper.method
    told = summary_of(method)
    answer, _, reading = ANSWER_OF.get(method.name, "None").partition(" ")
    taken = [f"{name}: {kind}" for name, kind in helper.by_position.items()]
    head = bracketed(
        f"{'async ' if is_async else ''}def {helper_name(method.name)}",
        ["self", *taken, f"**options: Unpack[{helper.options}]"],
        f" -> {answer}:",
        "    ",
    )
    doc = docstring([told[0].upper() + told[1:], CALL_NOTES.get(method.name, "")], "        ")
    return head + doc + _body(helper, reading or answer, is_async=is_async)


def _body(helper: _Helper, reading: str, *, is_async: bool) -> str:
    name = helper.method.name
    indent = " " * 8
    sent = [
        f"{field}=[*{field}]" if kind.startswith("Sequence[") else f"{field}={field}"
        for field, kind in helper.by_position.items()
    ]
    before = ""
    if name in LEFT_OUT:
        field, by = LEFT_OUT[name]
        sent = [part for part in sent if part != f"{field}={field}"] + ["**target"]
        before = f'{indent}target = {{}} if options.get("{by}") else {{"{field}": {field}}}\n'
    ask = f"{'await ' if is_async else ''}self._ask"
    arguments = [f'"{name}"', "options", *sent]
    if reading == "None":
        return before + bracketed(ask, arguments, "", indent)
    before += bracketed(f"answer = {ask}", arguments, "", indent)
    kind, _, member = reading.partition(".")
    read = "READ_ANY(answer)" if kind == "Any" else f"read({kind}, answer)"
    return f"{before}{indent}return {read}{'.' + member if member else ''}\n"


def helper_name(method: str) -> str:
    """Return the name that a method of the protocol has in the client."""
    group, _, word = method.replace("rpc.", "server/").partition("/")
    name = word if group in {"session", "server"} else f"{group}_{word}"
    name = NAME_OF.get(method, name)
    return f"{name}_" if keyword.iskeyword(name) else name
