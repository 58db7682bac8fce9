"""The main job, on a real session, in front of your eyes: `make demo`.

Four processes append 200 messages each to one imported session while one
subscriber watches and another leaves half way and comes back. Then the figures
are compared: nothing lost, nothing twice. After that a branch, a label, a
compaction, and the tree. Exits with 1 if any figure is off.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sessiond_client import BlockingClient, Cursor, EntryEvent, connect_blocking

WRITERS, APPENDS = 4, 200
TOTAL = WRITERS * APPENDS
REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = 5000

console = Console(highlight=False)


def source() -> Path:
    """A recorded session if there is one on this machine, else the sample in the repository."""
    shared = Path(os.environ.get("SESSIOND_FIXTURES", REPOSITORY.parent / "shared"))
    recorded = shared / "fixtures" / "before-compaction.jsonl"
    return recorded if recorded.exists() else REPOSITORY / "tests/samples/pi/pi.jsonl"


def text_of(writer: int, number: int) -> str:
    return f"writer {writer}, message {number}"


def marks(entries: Iterable[dict[str, object]]) -> list[str]:
    """The texts of the demo's own messages among entries or messages."""
    found = []
    for entry in entries:
        message = entry.get("message", entry)
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str) and content.startswith("writer "):
            found.append(content)
    return found


# -- the processes ------------------------------------------------------------------------


@contextmanager
def daemon(home: Path) -> Iterator[Path]:
    """A daemon of its own, with its data in a temporary folder."""
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


def child(*arguments: object) -> subprocess.Popen[str]:
    """This program again, in another part."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def write(socket: str, session_id: str, writer: int) -> None:
    """Append APPENDS messages, each on disk before the next is sent."""
    with connect_blocking(socket) as client:
        for number in range(APPENDS):
            message = {
                "role": "user",
                "content": text_of(writer, number),
                "timestamp": int(time.time() * 1000),
            }
            client.append(session_id, message=message)


def watch(socket: str, session_id: str, after: Cursor, stop_at: int) -> None:
    """Print every demo message seen until there were `stop_at`, then where that was."""
    seen = 0
    last = after
    with (
        connect_blocking(socket) as client,
        client.subscribe(session_id, after=after) as subscription,
    ):
        for event in subscription:
            if not isinstance(event, EntryEvent):
                continue
            last = event.cursor
            for text in marks([event.entry]):
                print(text, flush=True)
                seen += 1
            if seen >= stop_at:
                break
    print(json.dumps({"seq": last.seq, "entry_id": last.entry_id}))


def watch_twice(socket: str, session_id: str, after: Cursor) -> None:
    """Watch half of it, leave, come back after the last entry seen, watch the rest."""
    first = child("watch", socket, session_id, after.seq, after.entry_id, TOTAL // 2)
    lines = (first.communicate()[0]).splitlines()
    at = json.loads(lines[-1])
    seen = len(lines) - 1
    rest = child("watch", socket, session_id, at["seq"], at["entry_id"], TOTAL - seen)
    lines[-1:] = rest.communicate()[0].splitlines()
    print("\n".join(lines))


# -- the comparison -------------------------------------------------------------------------


def compare(rows: Sequence[tuple[str, list[str]]], order: list[str]) -> bool:
    """Show the figures; every place must hold each message once, in the order of the file."""
    wanted = {text_of(writer, number) for writer in range(WRITERS) for number in range(APPENDS)}
    table = Table(title=f"{WRITERS} processes x {APPENDS} appends on one session")
    for heading in ("where", "messages", "lost", "twice", "in the file's order"):
        table.add_column(heading, justify="left" if heading == "where" else "right")
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
    """The main job: everybody writes, two watch, and the figures agree."""
    start = client.get(session_id)
    after = Cursor(start.seq or 0, entry_id=str(start.leaf_id))
    position = (after.seq, after.entry_id)
    live = child("watch", socket, session_id, *position, TOTAL)
    resumed = child("watch-twice", socket, session_id, *position)
    began = time.perf_counter()
    writers = [child("write", socket, session_id, writer) for writer in range(WRITERS)]
    with console.status("four processes are writing"):
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
            ("on disk", on_disk),
            ("on the branch", marks(everything_on_path(client, session_id))),
            ("in the context", marks(context.messages)),
            ("seen by the live subscriber", seen_live),
            ("seen by the one that resumed half way", seen_resumed),
        ),
        on_disk,
    )
    console.print(f"every append durable before its answer; {seconds:.1f} s for all of it\n")
    return good


def branch_and_compact(client: BlockingClient, session_id: str) -> None:
    """What else one does with a tree."""
    path = everything_on_path(client, session_id)
    fork, kept = path[-20], path[-5]
    client.label(session_id, str(fork["id"]), "before the experiment")
    client.branch(session_id, str(fork["id"]), summary="The last appends went nowhere.")
    say = {"role": "user", "content": "on with it", "timestamp": int(time.time() * 1000)}
    client.append(session_id, message=say)
    console.print("labelled an entry, went back to it with a summary, and appended there")
    client.branch(session_id, str(path[-1]["id"]))
    before = client.build_context(session_id)
    done = client.compact(
        session_id,
        summary="What was said until here, in short.",
        first_kept_entry_id=str(kept["id"]),
    )
    after = client.build_context(session_id)
    console.print("returned to the first branch and compacted it:")
    console.print(f"  context before: {len(before.messages)} messages, {done.tokens_before} tokens")
    console.print(f"  context after:  {len(after.messages)} messages, {done.tokens_after} tokens\n")


def draw(client: BlockingClient, session_id: str) -> None:
    """The tree, with runs of entries without a branch or label drawn as one line."""
    nodes = []
    cursor: str | None = None
    while True:
        if cursor is None:
            page = client.tree(session_id, limit=PAGE)
        else:
            page = client.tree(session_id, limit=PAGE, cursor=cursor)
        nodes += page.nodes
        cursor = page.next_cursor
        if cursor is None:
            break
    console.print("[bold]the tree[/bold] (● on the active branch)")
    indents: dict[str | None, int] = {None: 0}
    branching = {node.id for node in nodes if (node.children or 0) > 1}
    skipped = 0
    for place, node in enumerate(nodes):
        indent = indents[node.parent_id]
        indents[node.id] = indent + (node.id in branching)
        above = nodes[place - 1] if place else None
        shown = (
            node.label
            or node.id in branching
            or not node.children
            or node.type in {"compaction", "branch_summary"}
            or above is None
            or node.parent_id in branching
        )
        if not shown:
            skipped += 1
            continue
        pad = "   " * indent
        if skipped:
            console.print(f"  {pad}┊ {skipped} entries", style="dim")
            skipped = 0
        mark = "●" if node.on_active_path else "○"
        label = f"  [{node.label}]" if node.label else ""
        preview = (node.preview or "").replace("\n", " ")[:48]
        console.print(f"  {pad}{mark} {node.type}: {preview}{label}", markup=False)


def main() -> int:
    recorded = source()
    with (
        tempfile.TemporaryDirectory(prefix="sessiond-demo-") as folder,
        daemon(Path(folder)) as socket,
        connect_blocking(socket) as client,
    ):
        imported = client.import_(path=str(recorded), cwd="/demo")
        session_id = imported.session.id
        context = client.build_context(session_id)
        console.print(f"imported {recorded.name}: a context of {len(context.messages)} messages")
        good = share(socket, client, session_id)
        branch_and_compact(client, session_id)
        draw(client, session_id)
    verdict = "[green]all equal: nothing lost, nothing twice[/green]"
    console.print(f"\n{verdict}" if good else "\n[red]the figures differ[/red]")
    return 0 if good else 1


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            sys.exit(main())
        case ["write", socket, session_id, writer]:
            write(socket, session_id, int(writer))
        case ["watch", socket, session_id, seq, entry_id, stop_at]:
            watch(socket, session_id, Cursor(int(seq), entry_id=entry_id), int(stop_at))
        case ["watch-twice", socket, session_id, seq, entry_id]:
            watch_twice(socket, session_id, Cursor(int(seq), entry_id=entry_id))
        case _:
            sys.exit("usage: demo.py")
