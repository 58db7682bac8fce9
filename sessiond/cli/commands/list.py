"""`sessiond list`: list the sessions."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

import click
import msgspec

from sessiond.cli.arguments import FOLDER, MOMENT, archived_option, project_options
from sessiond.cli.connect.conversation import answer, ask_long, connected, read
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import is_terminal, note
from sessiond.cli.ui.pager import pager_option
from sessiond.cli.ui.session_list import session_blocks, session_table, sessions_so_far
from sessiond.model.ids import is_session_id
from sessiond.visible import files_read

if TYPE_CHECKING:
    from sessiond_client import BlockingClient

_ROWS = 50
_PAGE = 1000
_NONE_YET = """There is no session here yet. Begin with:
  sessiond new --title "my first session"
  sessiond append "my first session" "Hello."
Drafts and archived sessions: `sessiond list --archived any --drafts`"""


@click.command(
    "list",
    cls=Command,
    examples=(
        "sessiond list",
        "sessiond list --here --updated-after 7d --sort title",
        "sessiond list --group agent",
        "sessiond list --all --archived any --json",
    ),
)
@shared_options
@project_options
@click.option("--title", metavar="WORDS", help="Only sessions with these words in the title.")
@click.option(
    "--query",
    "-q",
    metavar="WORDS",
    help="Only with these words in title, first message or folder.",
)
@click.option("--tag", "tags", multiple=True, help="Only sessions with this tag.")
@click.option("--agent", help="Only sessions of this agent.")
@click.option("--status", help="Only sessions with this status.")
@click.option("--root", type=FOLDER, help="Only sessions whose files lie below this folder.")
@click.option("--program", metavar="NAME", help="Only sessions of this program, as pi.")
@archived_option
@click.option(
    "--created-after",
    type=MOMENT,
    help="Only sessions created after TIME: a date, RFC 3339, or 30m, 12h, 7d for a time ago.",
)
@click.option("--created-before", type=MOMENT, help="Only sessions created before TIME.")
@click.option("--updated-after", type=MOMENT, help="Only sessions updated after TIME.")
@click.option("--updated-before", type=MOMENT, help="Only sessions updated before TIME.")
@click.option(
    "--drafts",
    is_flag=True,
    default=None,
    help="Include drafts: sessions without an assistant message.",
)
@click.option(
    "--subagents",
    is_flag=True,
    default=None,
    help="Include sessions that an agent started for a task of another session.",
)
@click.option(
    "--sort",
    type=click.Choice(["updated_at", "created_at", "title", "message_count"]),
    help="Value to sort by.  [default: updated_at]",
)
@click.option(
    "--order",
    type=click.Choice(["asc", "desc"]),
    help="Smallest or largest value first.  [default: asc by title, else desc]",
)
@click.option(
    "--group",
    type=click.Choice(["agent"]),
    help="On a terminal, show a block for each agent, with its number of sessions.",
)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1),
    default=_ROWS,
    show_default=True,
    help="Most sessions to list.",
)
@click.option("--cursor", help="Cursor of the page before.")
@click.option("--all", "all_pages", is_flag=True, help="Every page; --limit does not count.")
@pager_option
def list_sessions(
    shared: Shared, *, all_pages: bool, limit: int, group: str | None, **filters: Any
) -> None:
    """List the sessions, the latest first.

    A terminal shows the end of a session's id, which every command accepts for SESSION. A pipe gets
    a line for each session, with tabs and without headings: id, time of the last change, status,
    turns, messages, title (else the first message), folder.
    """
    filters["tags"] = list(filters["tags"]) or None
    is_filtered = any(value is not None for value in filters.values())
    with connected(shared) as client:
        is_watched = is_terminal() and not shared.as_json
        if all_pages:
            found = _all_pages(client, filters, is_watched=is_watched)
        elif is_watched:
            found = _page_in_sight(client, filters, limit)
        else:
            found = _page(client, filters, limit)
    answer(shared, found, lambda page: _show(page, group, is_filtered=is_filtered))


def _page(
    client: BlockingClient, filters: dict[str, Any], limit: int, *, whole: bool | None = None
) -> bytes:
    from sessiond_client import RpcError

    try:
        return ask_long(client, "session/list", **filters, limit=limit, whole=whole)
    except RpcError as error:
        if error.data.get("path") != "whole":
            raise
        # An older daemon has whole lists only.
        return ask_long(client, "session/list", **filters, limit=limit)


def _page_in_sight(client: BlockingClient, filters: dict[str, Any], limit: int) -> bytes:
    """Return a page of the list, and show meanwhile what is found so far.

    The page is whole as soon as no session that is still to be read can come before its last one.
    """
    found = _page(client, filters, limit, whole=False)
    if (page := read(found))["looking"] is None:
        return found
    with sessions_so_far() as show:
        while (looking := page["looking"]) is not None and not _is_settled(page, filters, limit):
            show(page["sessions"], looking)
            found = _page(client, filters, limit, whole=False)
            page = read(found)
    return found


def _is_settled(page: dict[str, Any], filters: dict[str, Any], limit: int) -> bool:
    until, sessions = page["looking"]["until"], page["sessions"]
    is_latest_first = filters["sort"] in {None, "updated_at"} and filters["order"] != "asc"
    return bool(
        is_latest_first and until and len(sessions) == limit and sessions[-1]["updated_at"] > until
    )


def _all_pages(client: BlockingClient, filters: dict[str, Any], *, is_watched: bool) -> bytes:
    """Return all pages as one."""
    whole = read((_page_in_sight if is_watched else _page)(client, filters, _PAGE))
    while whole["next_cursor"] is not None:
        filters["cursor"] = whole["next_cursor"]
        page = read(_page(client, filters, _PAGE))
        whole["sessions"] += page["sessions"]
        whole["next_cursor"], whole["looking"] = page["next_cursor"], page["looking"]
    return msgspec.json.encode(whole)


def _show(page: dict[str, Any], group: str | None, *, is_filtered: bool) -> None:
    if page["sessions"] and group is not None:
        session_blocks(page["sessions"], has_more=page["next_cursor"] is not None)
    elif page["sessions"]:
        session_table(page["sessions"])
    elif is_filtered:
        note(
            "no session matches: use fewer filters, or see `sessiond list --archived any --drafts`"
        )
    else:
        note(_NONE_YET)
    if (looking := page["looking"]) is not None and looking["total"] is not None:
        note(f"{files_read(looking['done'], looking['total'])}, the newest first.")
    if page["next_cursor"] is not None:
        note("There are more sessions: list all with --all, or use filters.")
    for file in page.get("unreadable", ()):
        path = file["path"]
        # The row of a database may have what is no id, which no command takes.
        known = path.startswith("/") or is_session_id(path)
        see = f"verify {quote(path)}" if known else "doctor"
        note(f"{path} cannot be read as a session: see `sessiond {see}`")


COMMAND = list_sessions
