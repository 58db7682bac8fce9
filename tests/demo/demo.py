"""A demonstration of what goes wrong without an owner of a session: `make demo`.

Four programs append 200 messages each directly to the file of one session: a model then sees the
messages of one program only. Then the four programs append through sessiond, while a fifth program
watches and a sixth leaves half way and comes back: no message is lost or comes twice. Then follow
a branch, a label and a compaction; with --tree the tree is printed, too. The exit status is 1 if
sessiond lost anything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from sessiond_client import BlockingClient, Cursor, connect_blocking
from tests.demo.programs import APPENDS, TOTAL, WRITERS, child, marks, text_of
from tests.demo.tree import PAGE, draw

REPOSITORY = Path(__file__).resolve().parents[2]
ALONE = Path(__file__).with_name("alone.py")

console = Console(highlight=False)


def source() -> Path:
    """Return a recorded session of this machine, else the sample in the repository."""
    shared = Path(os.environ.get("SESSIOND_FIXTURES", REPOSITORY.parent / "shared"))
    recorded = shared / "fixtures" / "before-compaction.jsonl"
    return recorded if recorded.exists() else REPOSITORY / "tests/samples/pi/pi.jsonl"


@contextmanager
def daemon(home: Path) -> Iterator[Path]:
    """Run a daemon of its own, with its data in a temporary folder."""
    socket = home / "run" / "sessiond.sock"
    command = [str(Path(sys.executable).with_name("sessiond")), "serve", "--socket", str(socket)]
    log = (home / "daemon.log").open("wb")
    process = subprocess.Popen(command, env={**os.environ, "SESSIOND_HOME": str(home)}, stderr=log)
    try:
        for _ in range(200):
            if socket.exists() or process.poll() is not None:
                break
            time.sleep(0.05)
        yield socket
    finally:
        process.terminate()
        process.wait(timeout=20)
        log.close()


# -- without an owner ---------------------------------------------------------------------


def alone(path: Path) -> None:
    """Let four programs append to one file, each by itself, and show what a model sees then."""
    command = [sys.executable, str(ALONE)]
    writers = [
        subprocess.Popen(
            [*command, "write", str(path), str(writer), str(APPENDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for writer in range(WRITERS)
    ]
    for process in writers:
        assert process.stdout is not None
        process.stdout.readline()  # the session is loaded
    for process in writers:
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
    for process in writers:
        process.communicate()
    in_file = marks(json.loads(line) for line in path.read_bytes().splitlines())
    shown = subprocess.run(
        [*command, "show", str(path)], stdout=subprocess.PIPE, text=True, check=True
    )
    seen = marks(map(json.loads, shown.stdout.splitlines()))
    console.print(
        f"Without an owner: {WRITERS} programs append {APPENDS} messages each to one file."
    )
    table = new_table("lost")
    for where, found in (("in the file", in_file), ("seen by the model", seen)):
        table.add_row(where, str(len(found)), str(len(expected() - set(found))))
    console.print(table)
    console.print(
        "Each program went on from the last entry that it knew. So each made a branch of its own,\n"
        "and a model reads one branch.\n"
    )


# -- the comparison -------------------------------------------------------------------------


def expected() -> set[str]:
    """Return the text of every message that the programs append."""
    return {text_of(writer, number) for writer in range(WRITERS) for number in range(APPENDS)}


def new_table(*figures: str) -> Table:
    """Return a table of places, the number of messages there, and more figures."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("where")
    for heading in ("messages", *figures):
        table.add_column(heading, justify="right")
    return table


def compare(rows: Sequence[tuple[str, list[str]]], order: list[str]) -> bool:
    """Show the figures; every place must hold each message once, in the order of the file."""
    wanted = expected()
    console.print(f"With sessiond: the same {WRITERS} programs append through it, and two watch.")
    table = new_table("lost", "twice", "in the file's order")
    good = True
    for where, found in rows:
        counts = Counter(found)
        lost = len(wanted - counts.keys())
        twice = sum(count - 1 for count in counts.values())
        ordered = found == order
        good = good and not lost and not twice and ordered
        table.add_row(where, str(len(found)), str(lost), str(twice), "yes" if ordered else "NO")
    console.print(table)
    return good


def everything_on_path(client: BlockingClient, session_id: str) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = []
    cursor: str | None = None
    while True:
        if cursor is None:
            page = client.path(session_id, limit=PAGE)
        else:
            page = client.path(session_id, limit=PAGE, cursor=cursor)
        entries += [row.entry for row in page.entries]
        cursor = page.next_cursor
        if cursor is None:
            return entries


def share(socket: Path, client: BlockingClient, session_id: str) -> bool:
    """Let four programs append and two watch, and compare what each of them has."""
    start = client.get(session_id)
    after = Cursor(start.seq or 0, entry_id=str(start.leaf_id))
    position = (after.seq, after.entry_id)
    live = child("watch", socket, session_id, *position, TOTAL)
    resumed = child("watch-twice", socket, session_id, *position)
    began = time.perf_counter()
    writers = [child("write", socket, session_id, writer) for writer in range(WRITERS)]
    with console.status("four programs append, two watch"):
        for process in writers:
            process.communicate()
        seconds = time.perf_counter() - began
        seen_live = live.communicate()[0].splitlines()[:-1]
        seen_resumed = resumed.communicate()[0].splitlines()[:-1]
    path = client.get(session_id).path
    lines = Path(str(path)).read_bytes().split(b"\n")[:-1]
    on_disk = marks(json.loads(line) for line in lines[1:])
    context = client.build_context(session_id)
    good = compare(
        (
            ("in the file", on_disk),
            ("on the branch", marks(everything_on_path(client, session_id))),
            ("seen by the model", marks(context.messages)),
            ("seen by a program that watches", seen_live),
            ("seen by one that left and came back", seen_resumed),
        ),
        on_disk,
    )
    console.print(
        f"Every message was on disk before its append was answered. It took {seconds:.1f} s.\n"
    )
    return good


def branch_and_compact(client: BlockingClient, session_id: str) -> None:
    """Label an entry, branch there, return, and compact."""
    path = everything_on_path(client, session_id)
    fork, kept = path[-20], path[-5]
    client.label(session_id, str(fork["id"]), "before the experiment")
    client.branch(session_id, str(fork["id"]), summary="The last appends went nowhere.")
    say = {"role": "user", "content": "on with it", "timestamp": int(time.time() * 1000)}
    client.append(session_id, message=say)
    console.print(
        "Then: labelled an entry, went back to the entry with a summary, appended a message there,"
    )
    client.branch(session_id, str(path[-1]["id"]))
    before = client.build_context(session_id)
    done = client.compact(
        session_id,
        summary="What was said until here, in short.",
        first_kept_entry_id=str(kept["id"]),
    )
    after = client.build_context(session_id)
    console.print("returned to the first branch and compacted it.")
    console.print(f"Context before: {len(before.messages)} messages, {done.tokens_before} tokens.")
    console.print(f"Context after:  {len(after.messages)} messages, {done.tokens_after} tokens.\n")


def main(*, with_tree: bool) -> int:
    """Show everything; return 0 only if sessiond kept every message."""
    recorded = source()
    with (
        tempfile.TemporaryDirectory(prefix="sessiond-demo-") as folder,
        daemon(Path(folder)) as socket,
        connect_blocking(socket) as client,
    ):
        session = client.import_(path=str(recorded), cwd="/demo").session
        count = len(client.build_context(session.id).messages)
        console.print(f"A session with a context of {count} messages, from {recorded.name}.\n")
        copy = Path(folder, "copy.jsonl")
        client.export(session.id, path=str(copy))
        alone(copy)
        good = share(socket, client, session.id)
        branch_and_compact(client, session.id)
        if with_tree:
            draw(console, client, session.id)
    if good:
        console.print("[green]sessiond: nothing lost, nothing twice[/green]")
    else:
        console.print("[red]sessiond lost messages, or has some twice[/red]")
    return 0 if good else 1


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            sys.exit(main(with_tree=False))
        case ["--tree"]:
            sys.exit(main(with_tree=True))
        case _:
            sys.exit("usage: demo.py [--tree]")
