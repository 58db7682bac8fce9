"""`sessiond state`: read and change the named JSON documents of the profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click
import msgspec
from msgspec import Raw

from sessiond import typed
from sessiond.cli.arguments import absolute, text_of_input
from sessiond.cli.connect.conversation import answer, ask, connected, read
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.failure import missing_value
from sessiond.cli.ui.output import say, table
from sessiond.visible import counted

# How many words an action takes, at least and at most, and their names.
_WORDS: Final = {
    "get": (2, 2, "NAMESPACE KEY"),
    "set": (2, 3, "NAMESPACE KEY [VALUE]"),
    "delete": (2, 2, "NAMESPACE KEY"),
    "list": (0, 1, "[NAMESPACE]"),
    "load": (1, 1, "PATH"),
    "save": (2, 2, "NAMESPACE PATH"),
}
_ONLY_FOR: Final = {
    "expected_revision": ("set", "delete"),
    "ttl_ms": ("set",),
    "tags": ("set", "list"),
    "namespace": ("load",),
}


@click.command(
    "state",
    cls=Command,
    examples=(
        """sessiond state set settings theme '"dark"'""",
        "sessiond state get settings theme",
        'echo \'{"name":"plan"}\' | sessiond state set context mode --ttl-ms 60000 --tag ui',
        "sessiond state list",
        "sessiond state list settings --json",
        "sessiond state save settings ./settings.json",
        "sessiond state load ./settings.json --namespace copy",
        "sessiond state delete settings theme",
    ),
)
@shared_options
@click.option(
    "--revision",
    "expected_revision",
    type=click.IntRange(min=0),
    help="For set and delete: refuse unless the key has this revision (0: does not exist).",
)
@click.option("--ttl-ms", type=click.IntRange(min=1), help="For set: how long the value lives.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="WORD",
    help="For set: tag of the value. For list: only keys with this tag.",
)
@click.option("--namespace", metavar="NAME", help="For load: the namespace of a file.")
@click.argument("action", type=click.Choice(list(_WORDS)))
@click.argument("words", nargs=-1, metavar="[NAMESPACE] [KEY] [VALUE] [PATH]")
def state(shared: Shared, action: str, words: tuple[str, ...], **options: Any) -> None:
    """Read and change named JSON documents: settings, lists of servers, the last project.

    get NAMESPACE KEY prints a value. set NAMESPACE KEY [VALUE] stores a VALUE, which is JSON; without
    VALUE it is standard input. delete NAMESPACE KEY deletes. list shows the namespaces, list NAMESPACE
    the keys of one. load PATH takes over a JSON file, or a folder of them as Construct's state folder.
    save NAMESPACE PATH writes a namespace to a new JSON file; it does not write over a file that is
    there. Secrets do not belong here: see `sessiond secret`.
    """
    least, most, names = _WORDS[action]
    if not least <= len(words) <= most:
        raise click.UsageError(f"`sessiond state {action}` takes {names}")
    params = _options(action, options) | _params(action, words)
    with connected(shared) as client:
        found = ask(client, f"state/{action}", **params)
    if action == "get" and not read(found)["revision"]:
        raise missing_value("state", *words, noun="key", listed="keys")
    answer(shared, found, _TEXTS[action])


def _options(action: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of an action. Raises UsageError for one that the action does not take."""
    named = {name: value for name, value in given.items() if value not in {None, ()}}
    for name in named:
        if action not in _ONLY_FOR[name]:
            flag = {"expected_revision": "revision", "tags": "tag"}.get(name, name)
            allowed = " and ".join(_ONLY_FOR[name])
            raise click.UsageError(f"--{flag.replace('_', '-')} is for {allowed}")
    return named


def _params(action: str, words: tuple[str, ...]) -> dict[str, Any]:
    """Return the parameters that the words of a command name. Raises UsageError."""
    if action == "list":
        return {"namespace": words[0]} if words else {}
    if action == "load":
        return {"path": absolute(words[0])}
    if action == "save":
        return {"namespace": words[0], "path": absolute(words[1])}
    params: dict[str, Any] = {"namespace": words[0], "key": words[1]}
    if action == "set":
        params["value"] = _value(words[2] if len(words) > 2 else text_of_input())
    return params


def _value(text: str) -> Raw:
    try:
        typed.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(
            f"the value is not JSON ({error}): a text is written in double quotes, as '\"dark\"'"
        ) from None
    return Raw(text.encode())


def _show_value(found: dict[str, Any]) -> None:
    say(msgspec.json.format(msgspec.json.encode(found["value"])).decode())


def _show_list(found: dict[str, Any]) -> None:
    if "keys" in found:
        rows = [(one["key"], str(one["bytes"]), ", ".join(one["tags"])) for one in found["keys"]]
        table(("KEY", "BYTES", "TAGS"), rows)
        return
    rows = [(one["namespace"], str(one["keys"]), str(one["bytes"])) for one in found["namespaces"]]
    table(("NAMESPACE", "KEYS", "BYTES"), rows)
    for one in found["aside"]:
        say(f"put aside, for it was no document of {one['namespace']}: {one['path']}")


def _show_loaded(found: dict[str, Any]) -> None:
    for one in found["loaded"]:
        say(f"{one['namespace']}: {counted(one['keys'], 'key')}, {one['changed']} of them changed")
    for one in found["problems"]:
        key = f", {one['key']}" if "key" in one else ""
        say(f"not loaded: {one['path']}{key}: {one['reason']}")


def _show_stored(found: dict[str, Any]) -> None:
    say(f"stored, revision {found['revision']}")


def _show_deleted(found: dict[str, Any]) -> None:
    say("deleted" if found["deleted"] else "no such key")


def _show_saved(found: dict[str, Any]) -> None:
    say(f"{counted(found['keys'], 'key')} in {found['path']}")


_TEXTS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "get": _show_value,
    "set": _show_stored,
    "delete": _show_deleted,
    "list": _show_list,
    "load": _show_loaded,
    "save": _show_saved,
}

COMMAND = state
