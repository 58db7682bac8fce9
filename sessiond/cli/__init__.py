"""Command line and composition root, which knows every other part.

`CONTENTS` is the table of contents. A command's module is imported when the command runs, so
neither `sessiond --help` nor a starting daemon imports the other commands.

    commands/            one command per file
    connect/             the daemon from outside
    offline/             work on files without a daemon
    ui/                  output on a terminal
    lazy.py              import of the one command that runs
    leading_flags.py     shared flags before the command's name
    options.py           flags that commands share
    arguments.py         arguments that commands share
    entry_refs.py        entries as a person writes them
    bulk.py              one operation on several sessions
    shell_completion.py  completion of SESSION in a shell
"""

from __future__ import annotations

from typing import Final

import click

from sessiond import __version__
from sessiond.cli.lazy import LazyGroup, Listed

CONTENTS: Final[tuple[Listed, ...]] = (
    Listed("Sessions", "new", "new", "Make a session."),
    Listed("Sessions", "list", "list", "List the sessions."),
    Listed("Sessions", "show", "show", "Show a session and its last entries."),
    Listed("Sessions", "turns", "turns", "Show requests and responses, with their status."),
    Listed("Sessions", "tail", "tail", "Print the last entries, and follow new ones."),
    Listed("Sessions", "append", "append", "Store a message or another entry."),
    Listed("Sessions", "context", "context", "Print the messages that a model is sent."),
    Listed("Sessions", "continue", "continue_recent", "Print the latest session of a project."),
    Listed("Sessions", "scope", "scope", "Print the one session of a scope."),
    Listed("Sessions", "browse", "browse", "Look at sessions and change them, in the terminal."),
    Listed("Sessions", "search", "search", "Find entries by their text."),
    Listed("Sessions", "forest", "forest", "Draw which session came from which."),
    Listed("Sessions", "fork", "fork", "Make a session from the entries of another."),
    Listed("Sessions", "rebase", "rebase", "Make a session of chosen entries."),
    Listed("Sessions", "merge", "merge", "Bring another session's work into a session."),
    Listed("Sessions", "rename", "rename", "Give a session a title."),
    Listed("Sessions", "archive", "archive", "Archive sessions: unlisted and read-only."),
    Listed("Sessions", "unarchive", "unarchive", "Bring archived sessions back."),
    Listed("Sessions", "delete", "delete", "Move sessions to the trash."),
    Listed("Sessions", "retention", "retention", "Move old sessions to the trash."),
    Listed("Sessions", "trash", "trash", "List the deleted sessions."),
    Listed("Sessions", "restore", "restore", "Bring deleted sessions back."),
    Listed("Sessions", "forget", "forget", "Unlist files outside the profile."),
    Listed("Sessions", "purge", "purge", "Remove sessions from the trash for good."),
    Listed("Agent", "brief", "brief", "Print what a resumed turn begins with."),
    Listed("Agent", "task", "task", "Count a turn of an agent, with its decision."),
    Listed("Agent", "decide", "decide", "Remember a key decision."),
    Listed("Agent", "artifact", "artifact", "Point to artifacts by name, and list them."),
    Listed("Agent", "prune", "prune", "Keep only the newest decisions in view."),
    Listed("Tree", "tree", "tree", "Draw the tree of a session."),
    Listed("Tree", "branch", "branch", "Move a head."),
    Listed("Tree", "navigate", "navigate", "Go to an entry, and get its text to change it."),
    Listed("Tree", "rewind", "rewind", "Put a head back on its own path."),
    Listed("Tree", "heads", "heads", "List the heads of a session."),
    Listed("Tree", "label", "label", "Label entries, and list the labels."),
    Listed("Tree", "usage", "usage", "Print how full the model's window is."),
    Listed("Tree", "plan", "plan", "Print the prompt for a compaction's summary."),
    Listed("Tree", "compact", "compact", "Replace earlier entries by a summary."),
    Listed("Files", "roots", "roots", "List the folders of other programs; add, remove."),
    Listed("Files", "import", "import_sessions", "Copy session files into the profile."),
    Listed("Files", "export", "export", "Write a session to a file of its own."),
    Listed("Files", "verify", "verify", "Check a session file for damage."),
    Listed("Files", "repair", "repair", "Remove the bad lines of a session file."),
    Listed("Files", "dump", "dump", "Print a session file line by line."),
    Listed("State", "state", "state", "Read and change named JSON documents."),
    Listed("State", "secret", "secret", "Store and read secrets, encrypted."),
    Listed("Daemon", "start", "start", "Start the daemon, unless it runs."),
    Listed("Daemon", "stop", "stop", "Stop the daemon and wait for its process to end."),
    Listed("Daemon", "restart", "restart", "Stop the daemon and start a new one."),
    Listed("Daemon", "status", "status", "Print whether the daemon runs, and its load."),
    Listed("Daemon", "serve", "serve", "Run the daemon in the foreground."),
    Listed("Daemon", "stdio", "stdio", "Speak the protocol on stdin and stdout, for editors."),
    Listed("Daemon", "sockname", "sockname", "Print the path of the daemon's socket."),
    Listed("Daemon", "config", "config", "Show the effective configuration and its sources."),
    Listed("Daemon", "profiles", "profiles", "List the profiles and which have a daemon."),
    Listed("Daemon", "stats", "stats", "Print the figures of a session, or of the daemon."),
    Listed("Daemon", "doctor", "doctor", "Find problems of a profile, with their remedies."),
    Listed("Tools", "call", "call", "Call any method of the protocol."),
    Listed("Tools", "completion", "completion", "Print the completion script of a shell."),
    Listed("Tools", "help", "help", "Show the help of a command."),
    Listed("Tools", "lsp", "lsp", "Show session files in an editor: a language server."),
    Listed("Tools", "mcp", "mcp", "Offer sessions to MCP clients, on stdin and stdout."),
    Listed("Tools", "schema", "schema", "Print the schemas of the protocol."),
)


def _print_version(context: click.Context, _: click.Parameter, value: object) -> None:
    if value and not context.resilient_parsing:
        # To look at a checkout takes some milliseconds, which only commands that ask a daemon have to wait, too.
        from sessiond.build import BUILD

        click.echo(f"sessiond, version {__version__}, build {BUILD}")
        context.exit()


@click.group(
    cls=LazyGroup,
    contents=CONTENTS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
--profile, --socket, --home, --config, --json, --no-start and --no-pager may also stand
before the command.
\b
With --json a command prints exactly one JSON document, or JSON lines if the
command follows a session; a failure is the document {"error": {...}}.
\b
Exit status: 0 success, 1 refused or failed, 2 wrong usage, 3 no daemon answers,
4 not found or ambiguous, 130 interrupted, 141 the reader of the output went away.
""",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Own agent sessions: many programs read, write and watch one session without loss.

    \b
    First steps:
      sessiond new --title my-session
      sessiond append my-session "Hello."
      sessiond tail -f my-session

    SESSION is the path of a session file (with a "/", or ending in
    ".jsonl", ".jsonl.zst" or ".json"), or else the first of
    these that fits a session: its id; at least 4 leading characters of its id, or 6 trailing ones
    of an id that sessiond chose; its title; its title in another case; a part of its title.
    archive, unarchive, delete, forget, rename and repair take no part of a title; restore and purge
    take whole ids only.

    ENTRY is the first of these that fits an entry: its id; its label; a part of its id, as of a
    session. A terminal shows the end of both kinds of ids; --json and pipes show whole ids.

    TEXT is a text, "-" for standard input, or @FILE for the content of a file. STRING is taken as
    it stands.

    A terminal shows tables below headings; a pipe gets their rows as lines with tabs.
    """
