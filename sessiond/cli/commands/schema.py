"""`sessiond schema`: print the schemas of the protocol."""

from __future__ import annotations

import click

from sessiond.cli.options import Command
from sessiond.schema import FORMATS


@click.command(
    "schema", cls=Command, examples=("sessiond schema", "sessiond schema --format typescript")
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(FORMATS)),
    default="jsonschema",
    show_default=True,
    help="JSON Schema, the OpenRPC document of rpc.discover, or TypeScript declarations.",
)
def schema(format_: str) -> None:
    """Print the schemas of the protocol: every method, notification, entry and error."""
    click.echo(FORMATS[format_](), nl=False)


COMMAND = schema
