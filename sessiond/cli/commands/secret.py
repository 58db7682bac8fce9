"""`sessiond secret`: store and read secrets, encrypted in the profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click
import msgspec

from sessiond.cli.arguments import text_of_input
from sessiond.cli.connect.conversation import answer, ask, connected, read
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.failure import missing_value
from sessiond.cli.ui.output import is_terminal, say, table

# How many words an action takes, at least and at most, and their names.
_WORDS: Final = {
    "set": (2, 2, "NAMESPACE KEY, and the secret on standard input"),
    "get": (2, 2, "NAMESPACE KEY"),
    "list": (0, 1, "[NAMESPACE]"),
    "delete": (2, 2, "NAMESPACE KEY"),
    "rotate": (0, 0, "no further word"),
}


@click.command(
    "secret",
    cls=Command,
    examples=(
        "echo sk-1234 | sessiond secret set openai api_key",
        "sessiond secret get openai api_key",
        "sessiond secret list",
        "sessiond secret rotate",
        "sessiond secret delete openai api_key",
    ),
)
@shared_options
@click.option(
    "--revision",
    "expected_revision",
    type=click.IntRange(min=0),
    help="For set and delete: refuse unless the secret has this revision (0: does not exist).",
)
@click.argument("action", type=click.Choice(list(_WORDS)))
@click.argument("words", nargs=-1, metavar="[NAMESPACE] [KEY]")
def secret(
    shared: Shared, action: str, words: tuple[str, ...], *, expected_revision: int | None
) -> None:
    """Store and read secrets: API keys, tokens. They are encrypted in the profile.

    set NAMESPACE KEY stores standard input, without the line break at its end; a secret is never an
    argument, which other users could see. get NAMESPACE KEY prints a secret, as JSON if a client has stored another value
    than a text. list shows names only.
    rotate encrypts all secrets with a new key. The key is in a file outside the data folder, or comes
    from a command: [secrets] in the configuration.
    """
    least, most, names = _WORDS[action]
    if not least <= len(words) <= most:
        # The words are not repeated: one of them may be a secret.
        raise click.UsageError(f"`sessiond secret {action}` takes {names}")
    if expected_revision is not None and action not in {"set", "delete"}:
        raise click.UsageError("--revision is for set and delete")
    params: dict[str, Any] = dict(zip(("namespace", "key"), words, strict=False))
    if action == "set":
        params["value"] = text_of_input()
        if not params["value"]:
            # An empty text is more often a failed program before the pipe than an empty secret.
            raise click.UsageError("the secret is empty: give it on standard input")
    with connected(shared) as client:
        found = ask(client, f"secret/{action}", **params, expected_revision=expected_revision)
    if action == "get" and not read(found)["revision"]:
        raise missing_value("secret", *words, noun="secret", listed="names")
    answer(shared, found, _TEXTS[action])


def _show_list(found: dict[str, Any]) -> None:
    rows = [(one["namespace"], one["key"], one["updated_at"]) for one in found["secrets"]]
    table(("NAMESPACE", "KEY", "STORED"), rows)
    for one in found["aside"]:
        say(f"put aside, for it was no file of secrets of {one['namespace']}: {one['path']}")


def _show_secret(found: dict[str, Any]) -> None:
    value = found["value"]
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if is_terminal():
        say(text)
    else:
        # A program behind the pipe needs every character as it is.
        click.echo(text)


def _show_stored(found: dict[str, Any]) -> None:
    say(f"stored, revision {found['revision']}")


def _show_deleted(found: dict[str, Any]) -> None:
    say("deleted" if found["deleted"] else "no such secret")


def _show_rotated(found: dict[str, Any]) -> None:
    count, keys = found["secrets"], found["keys"]
    say(f"secrets encrypted with a new key: {count}; keys in use: {keys}")


_TEXTS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "set": _show_stored,
    "get": _show_secret,
    "list": _show_list,
    "delete": _show_deleted,
    "rotate": _show_rotated,
}

COMMAND = secret
