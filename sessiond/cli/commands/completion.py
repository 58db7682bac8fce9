"""`sessiond completion`: print the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sessiond.cli.options import Command
from sessiond.cli.ui.output import say

# Variable by which click's own scripts ask for completions.
_VARIABLE = "_SESSIOND_COMPLETE"


@click.command("completion", cls=Command, examples=("sessiond completion bash",))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion of commands, options and sessions for a SHELL.

    \b
    bash: sessiond completion bash >~/.local/share/bash-completion/completions/sessiond
    zsh:  sessiond completion zsh >"${fpath[1]}/_sessiond"
    fish: sessiond completion fish >~/.config/fish/completions/sessiond.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "one of click's own"
    say(found(ctx.find_root().command, {}, "sessiond", _VARIABLE).source())


COMMAND = completion
