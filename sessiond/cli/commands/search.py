"""`sessiond search`: where something was said."""

from __future__ import annotations

import click

from sessiond.cli.arguments import project_options
from sessiond.cli.options import Command, Place, json_option, place_options
from sessiond.cli.output import emit, table

__all__ = ["COMMAND"]


@click.command(
    "search", cls=Command, examples=('sessiond search "cron job"', "sessiond search --here late")
)
@json_option
@place_options
@click.argument("query")
@project_options
@click.option("--limit", "-n", type=click.IntRange(1), default=50, show_default=True)
def search(place: Place, query: str, cwd: str | None, limit: int, *, as_json: bool) -> None:
    """Find the entries that say QUERY, whatever its case, in the latest sessions first.

    The session files of the profile are read as they lie there, archived ones too, and no
    daemon is needed. With --json: {"hits": [{"session_id", "entry_id", "seq", "snippet"}]}.
    """
    from sessiond.cli.daemons import layout_of
    from sessiond.cli.progress import Steps
    from sessiond.cli.searching import Hit, search_files

    if not query:
        raise click.UsageError("QUERY is empty")
    hits: list[Hit] = []
    steps = Steps("search")
    done = 0
    for step in search_files(layout_of(place), query, cwd):
        if isinstance(step, list):
            hits += step
        elif len(hits) >= limit:
            break
        else:
            steps.report(done, None, "files")
            done += 1
    steps.end()
    if as_json:
        emit({"hits": hits[:limit]})
    else:
        columns = ("SESSION", "ENTRY", "SEQ", "TEXT")
        rows = [(hit.session_id, hit.entry_id, str(hit.seq), hit.snippet) for hit in hits[:limit]]
        table(columns, rows)


COMMAND = search
