"""Every command of sessiond that a source, a page or a client names is one that the command line takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sessiond.cli import main
from sessiond.cli.ui.failures import CHECKS, explain
from sessiond.errors import ERRORS
from sessiond_client import ConnectionLost, RpcError
from sessiond_client.errors import Unanswered
from tests.kit.advice import advised, bare, flaws_of, misfit

REPOSITORY: Final = Path(__file__).resolve().parents[2]
LEFT_OUT: Final = {".venv", "node_modules", ".bench", "dist"}
# Words for any command, and commands that are known when a message is made: tests/processes runs those.
ANY: Final = {
    *("sessiond STORE get", "sessiond STORE list", "sessiond COMMAND --help"),
    r"sessiond \w+ \{session\}[^",
    *("sessiond {store} list {value}", "sessiond {see}", "sessiond {command} --help"),
    *("sessiond {path} --help", "sessiond {words}"),
}
# The title of the application, and what the encryption of secrets binds them to.
NAMES: Final = {"sessiond browse", "sessiond secret"}
TEXTS: Final = (
    "**/*.md",
    "clients/**/*.[tj]s",
    "clients/**/*.mjs",
    "clients/**/*.el",
    "clients/**/*.lua",
    "clients/**/*.json",
    "clients/**/*.sh",
)


def files_of(*patterns: str) -> list[Path]:
    found = {path for pattern in patterns for path in REPOSITORY.glob(pattern)}
    return sorted(path for path in found if not LEFT_OUT & {*path.relative_to(REPOSITORY).parts})


def texts_of(source: Path, *, with_docs: bool = True) -> Iterator[str]:
    """Yield the texts of a module; a value inside of a text is its name in braces.

    Without docs, those of docstrings and of the examples of a help are left out.
    """
    nodes = [*ast.walk(ast.parse(source.read_text("utf-8")))]
    apart = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    if not with_docs:
        apart |= {node.value for node in nodes if isinstance(node, ast.Expr)}
        named = (node for node in nodes if isinstance(node, ast.keyword) and node.arg == "examples")
        apart |= {part for one in named for part in ast.walk(one) if isinstance(part, ast.expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(map(text_of, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in apart:
            yield node.value


def text_of(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    value = part.value if isinstance(part, ast.FormattedValue) else part
    return f"{{{value.id if isinstance(value, ast.Name) else 'value'}}}"


def wrong(texts: Iterable[str]) -> list[str]:
    """Return the commands between backquotes that the command line does not take, with the reason."""
    lines = {line for text in texts for line in advised(text.replace("\\`", "`"))} - ANY
    # A text of JavaScript stands between backquotes itself.
    lines = {line for line in lines if "${" not in line}
    whole = {line: re.sub(r"\{\w*\}", "VALUE", line) for line in sorted(lines)}
    return [f"{line}: {why}" for line, one in whole.items() if (why := misfit(one)) is not None]


def test_the_commands_that_a_source_names_are_those_of_the_command_line() -> None:
    sources = files_of("sessiond/**/*.py", "clients/**/*.py", "scripts/*.py")
    texts = [text for source in sources for text in texts_of(source)]
    assert sum(len(advised(text)) for text in texts) > 150
    assert wrong(texts) == []


@pytest.mark.parametrize("pattern", TEXTS)
def test_the_commands_that_a_page_or_a_client_names_are_those_of_the_command_line(
    pattern: str,
) -> None:
    files = files_of(pattern)
    assert files
    for file in files:
        text = file.read_text("utf-8")
        if file.suffix == ".el":
            text = re.sub(r"`([^`'\n]*)'", r"`\1`", text)
        assert wrong([text]) == [], file


def test_the_lines_of_code_of_a_page_are_lines_that_the_command_line_takes() -> None:
    pages = [page for page in files_of("**/*.md") if page.name != "CHANGELOG.md"]
    code = re.compile(r"^(?: {4,}|\$ )(sessiond [a-z-].*?)(?:\s+#.*)?$", re.MULTILINE)
    lines = {line for page in pages for line in code.findall(page.read_text("utf-8"))}
    assert len(lines) > 50
    assert [(line, why) for line in sorted(lines) if (why := misfit(line)) is not None] == []


def test_every_command_that_a_message_names_stands_between_backquotes() -> None:
    """A reader, and a program, see where the command begins and ends."""
    found = [
        (source.name, name, text)
        for source in files_of("sessiond/**/*.py")
        for text in texts_of(source, with_docs=False)
        for name in bare(text)
        if text not in NAMES
    ]
    assert found == []


@pytest.mark.parametrize("session", [None, "my-session-id", "what's `new`", "a b/c.jsonl"])
@pytest.mark.parametrize("command", ["append", "call", "new", "purge", "restore"])
def test_the_advice_after_each_error_is_a_command_line_whatever_the_session_is_called(
    command: str, session: str | None
) -> None:
    facts: list[dict[str, Any]] = [{}, {"repairable": False}, {"purpose": "merge"}]
    refusals = [
        RpcError(-1, "what is wrong: session/repair mends it", {"kind": error.kind, **more})
        for error in ERRORS
        for more in facts
    ]
    lost = [Unanswered("no answer", outcome_unknown=True, check=check) for check in CHECKS]
    with main.make_context("sessiond", [command], resilient_parsing=True) as context:
        context.invoked_subcommand = command
        for error in (*refusals, *lost, ConnectionLost("gone", outcome_unknown=False)):
            failure = explain(error, session)
            assert failure is not None
            said = f"{failure.what}: {failure.then}"
            assert flaws_of(said) == [], said
            assert not re.search(r"\{\w*\}", said), said
