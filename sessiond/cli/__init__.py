"""The command line: the composition root, which knows every other part.

Each command imports what it needs when it runs, so `sessiond --help` and a
starting daemon do not pay for one another.
"""

from __future__ import annotations

import click

from sessiond import __version__

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sessiond")
def main() -> None:
    """Own agent sessions: many programs read, write and watch one session without loss.

    \b
    Start a daemon and talk to it:
      sessiond serve --socket /tmp/me/sessiond.sock
      echo '{"id":1,"method":"session/list"}' | socat - UNIX:/tmp/me/sessiond.sock
    """


@main.command()
@click.option("--socket", "socket_path", metavar="PATH", help="Listen on this Unix socket.")
@click.option("--stdio", is_flag=True, help="Serve one client on standard input and output.")
@click.option(
    "--profile",
    envvar="SESSIOND_PROFILE",
    default="default",
    show_default=True,
    help="Which set of sessions; one daemon serves one profile.",
)
@click.option(
    "--home",
    envvar="SESSIOND_HOME",
    metavar="FOLDER",
    help="Where sessions are kept.  [default: the user's data folder]",
)
def serve(socket_path: str | None, profile: str, home: str | None, *, stdio: bool) -> None:
    """Run the daemon in the foreground until SIGTERM, SIGINT or server/stop.

    With --stdio it also ends when its input does, once everything asked is
    answered. Logs go to standard error, never with message content.

    \b
    Exit status: 0 after an orderly end, 1 if it cannot serve, 2 for wrong usage.
    """
    from sessiond.cli.daemon import DaemonOptions, run

    if socket_path is None and not stdio:
        raise click.UsageError("say where to serve: --socket PATH, --stdio, or both")
    options = DaemonOptions(profile=profile, home=home, socket_path=socket_path, stdio=stdio)
    raise SystemExit(run(options))


@main.command()
def schema() -> None:
    """Print the JSON Schema of every method's parameters and results."""
    from sessiond.schema import schema_text

    click.echo(schema_text(), nl=False)
