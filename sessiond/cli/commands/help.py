"""`sessiond help`: show the help of a command."""

from __future__ import annotations

import click

from sessiond.cli.options import Command
from sessiond.cli.ui.pager import paged


@click.command("help", cls=Command, examples=("sessiond help", "sessiond help append"))
@click.argument("command", required=False)
@click.pass_context
def help_(ctx: click.Context, /, command: str | None) -> None:
    """Show the help of COMMAND, or of all commands."""
    root = ctx.find_root()
    with paged():
        if command is None:
            click.echo(root.get_help())
            return
        assert isinstance(root.command, click.Group)
        name, found, _ = root.command.resolve_command(root, [command])
        assert found is not None
        click.echo(click.Context(found, info_name=name, parent=root).get_help())


COMMAND = help_
