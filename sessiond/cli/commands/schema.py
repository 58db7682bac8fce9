"""`sessiond schema`: the shapes of the protocol, for machines."""

from __future__ import annotations

import click

from sessiond.cli.options import Command

__all__ = ["COMMAND"]


@click.command("schema", cls=Command, examples=("sessiond schema",))
def schema() -> None:
    """Print the JSON Schema of every method's parameters and results."""
    from sessiond.schema import schema_text

    click.echo(schema_text(), nl=False)


COMMAND = schema
