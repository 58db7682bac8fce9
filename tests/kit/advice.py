"""Commands that a text advises, between backquotes, and whether the command line takes them.

Placeholders of a text are words in capitals, as in a help: SESSION, ENTRY.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

import click

from sessiond.cli import main
from sessiond.cli.leading_flags import behind, split_flags

__all__ = ["advised", "bare", "flaws_of", "misfit"]

# A quoted word of a shell may have a backquote inside, as a title may.
_COMMAND: Final = re.compile(r"""`(sessiond(?: (?:'[^'\n]*'|"[^"\n]*"|[^`'"\n])*)?)`""")
_BARE: Final = re.compile(r"(?<![\w`./-])sessiond ([a-z-]+)")
_PLACEHOLDER: Final = re.compile(r"[A-Z_]+")
_ENDS: Final = frozenset({"|", "&&", "||", ";", ">", ">>", "<", "&"})


def advised(text: str) -> list[str]:
    """Return the commands of sessiond that a text has between backquotes."""
    return _COMMAND.findall(text)


def bare(text: str) -> list[str]:
    """Return the commands of sessiond that a text names outside of backquotes, and of lines of their own."""
    text = re.sub(r"^  sessiond .*$", "", text, flags=re.MULTILINE)
    names = main.list_commands(click.Context(main))
    return [name for name in _BARE.findall(_COMMAND.sub("", text)) if name in names]


def flaws_of(text: str) -> list[str]:
    """Return what is wrong with the commands of sessiond that a message names."""
    lines = [(line, misfit(line)) for line in advised(text)]
    found = [f"{line}: {why}" for line, why in lines if why is not None]
    return found + [f"{name}: not between backquotes" for name in bare(text)]


def misfit(line: str) -> str | None:
    """Return why the command line of sessiond does not take a line; None if it does.

    A line may be the name of a command with some options. A line with arguments has all of them.
    """
    words = _first_command(line)
    if words[:1] != ["sessiond"]:
        return "it is no command of sessiond"
    flags, rest = split_flags(words[1:])
    context = click.Context(main, info_name="sessiond")
    try:
        if rest and not rest[0].startswith("-"):
            _, command, arguments = main.resolve_command(context, rest)
            assert command is not None
            _take(command, behind(flags, command) + arguments, context)
        elif rest != ["--stdio"]:  # a command, as editors spell it
            main.make_parser(context).parse_args(args=rest)
    except click.ClickException as error:
        return error.format_message()
    return None


def _first_command(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in lexer:
        if word in _ENDS:
            break
        words.append(word)
    return words


def _take(command: click.Command, words: list[str], above: click.Context) -> None:
    """Raise a ClickException for words that a command does not take."""
    context = click.Context(command, above, info_name=command.name)
    if isinstance(command, click.Group) and words and not words[0].startswith("-"):
        _, found, rest = command.resolve_command(context, words)
        assert found is not None
        _take(found, rest, context)
        return
    words = [*_with_values(command, words)]
    values, left, _ = command.make_parser(context).parse_args(args=[*words])
    if left:
        context.fail(f"unexpected arguments: {left}")
    params = command.get_params(context)
    has_arguments = any(_is_given(values, one) for one in params if isinstance(one, click.Argument))
    for param in params:
        for value in _texts(values, param):
            if isinstance(
                param.type, click.Choice | click.types.IntParamType | click.types.FloatParamType
            ):
                param.type(value, param, context)
        if has_arguments and param.required and not _is_given(values, param):
            raise click.MissingParameter(ctx=context, param=param)


def _with_values(command: click.Command, words: list[str]) -> Iterator[str]:
    """Yield the words, and a placeholder where a text names an option without its value."""
    taking = {
        name
        for param in command.params
        if isinstance(param, click.Option) and not param.is_flag and not param.count
        for name in param.opts
    }
    for word, following in zip(words, [*words[1:], "--"], strict=False):
        yield word
        if word in taking and following.startswith("--"):
            yield "VALUE"


def _texts(values: dict[str, object], param: click.Parameter) -> Iterator[str]:
    """Yield the texts that a line has for a parameter, without placeholders."""
    value = values.get(param.name or "")
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, str) and not _PLACEHOLDER.fullmatch(one):
            yield one


def _is_given(values: dict[str, object], param: click.Parameter) -> bool:
    value = values.get(param.name or "")
    return isinstance(value, str | list | tuple) and len(value) > 0
