"""The command line: the composition root, which knows every other part.

`CONTENTS` is its table of contents. A command is imported when it runs, so neither
`sessiond --help` nor a starting daemon pays for the others.
"""

from __future__ import annotations

from typing import Final

import click

from sessiond import __version__
from sessiond.cli.lazy import LazyGroup, Listed

__all__ = ["CONTENTS", "Listed", "main"]

CONTENTS: Final[tuple[Listed, ...]] = (
    Listed("Sessions", "new", "new", "Make a session."),
    Listed("Sessions", "list", "list", "List the sessions."),
    Listed("Sessions", "show", "show", "Show a session and its last entries."),
    Listed("Sessions", "tail", "tail", "Print the last entries, and those to come."),
    Listed("Sessions", "append", "append", "Store a message or another entry."),
    Listed("Sessions", "context", "context", "Print what a model is given."),
    Listed("Sessions", "continue", "continue_recent", "Take up the latest session of a project."),
    Listed("Sessions", "search", "search", "Find entries by what they say."),
    Listed("Sessions", "forest", "forest", "Draw which session came from which."),
    Listed("Sessions", "fork", "fork", "Make a session of what another one holds."),
    Listed("Sessions", "rename", "rename", "Give a session a title."),
    Listed("Sessions", "archive", "archive", "Put sessions away."),
    Listed("Sessions", "unarchive", "unarchive", "Bring archived sessions back."),
    Listed("Sessions", "delete", "delete", "Put sessions into the trash."),
    Listed(
        "Sessions", "retention", "retention", "Put what nobody changed for long into the trash."
    ),
    Listed("Sessions", "trash", "trash", "List the deleted sessions."),
    Listed("Sessions", "restore", "restore", "Bring deleted sessions back."),
    Listed("Sessions", "forget", "forget", "Take files outside the profile out of the list."),
    Listed("Sessions", "purge", "purge", "Take sessions out of the trash for good."),
    Listed("Tree", "tree", "tree", "Draw the tree of a session."),
    Listed("Tree", "branch", "branch", "Move a head."),
    Listed("Tree", "rewind", "rewind", "Put a head back on its own path."),
    Listed("Tree", "heads", "heads", "List the heads of a session."),
    Listed("Tree", "label", "label", "Name entries, and list the names."),
    Listed("Tree", "plan", "plan", "Print what a compaction would summarise."),
    Listed("Tree", "compact", "compact", "Replace what precedes by a summary."),
    Listed("Files", "import", "import_sessions", "Bring session files in."),
    Listed("Files", "export", "export", "Write a session to a file of its own."),
    Listed("Files", "verify", "verify", "Look for what is wrong in a session file."),
    Listed("Files", "repair", "repair", "Make a file anew without its bad lines."),
    Listed("Files", "dump", "dump", "Print a session file line by line."),
    Listed("Daemon", "start", "start", "Start the daemon, unless it runs."),
    Listed("Daemon", "stop", "stop", "Stop the daemon; done when its process is gone."),
    Listed("Daemon", "restart", "restart", "Stop the daemon and start one."),
    Listed("Daemon", "status", "status", "Say whether the daemon runs, and how busy it is."),
    Listed("Daemon", "serve", "serve", "Run the daemon in the foreground."),
    Listed("Daemon", "stdio", "stdio", "Speak the protocol on stdin and stdout, for editors."),
    Listed("Daemon", "sockname", "sockname", "Print the path of the daemon's socket."),
    Listed("Daemon", "config", "config", "Show the effective configuration and its sources."),
    Listed("Daemon", "profiles", "profiles", "List the profiles and which have a daemon."),
    Listed("Daemon", "stats", "stats", "Print the counters of the daemon."),
    Listed("Daemon", "doctor", "doctor", "Look for what is wrong, and say what to do."),
    Listed("Tools", "call", "call", "Call any method of the protocol."),
    Listed("Tools", "completion", "completion", "Print the completion of a shell."),
    Listed("Tools", "help", "help", "Show the help of a command."),
    Listed("Tools", "lsp", "lsp", "Show session files in an editor: a language server."),
    Listed("Tools", "schema", "schema", "Print the schemas of the protocol."),
)


@click.group(
    cls=LazyGroup,
    contents=CONTENTS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
--profile, --socket, --home, --config, --json, --no-start and --no-pager may also stand
before the command.
\b
With --json a command prints exactly one JSON document, or JSON lines where it
follows something; a failure is then the document {"error": {...}}.
\b
Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 no daemon to talk to,
4 not found or ambiguous, 130 interrupted, 141 the reader of the output went away.
""",
)
@click.version_option(__version__, prog_name="sessiond")
def main() -> None:
    """Own agent sessions: many programs read, write and watch one session without loss.

    SESSION, wherever a command takes one, is an id, at least 4 leading or 6 trailing characters
    of one, a title, or the path of a session file (with a "/" in it, or ending in ".jsonl").

    ENTRY is an id, at least 4 leading or 6 trailing characters of one, or a label. On a terminal
    ids of both are shown by their end; with --json, and in pipes, they are whole.

    TEXT is a text, "-" for standard input, or @FILE for what is in a file.
    """
