"""Children of a process and its connections to Unix sockets, as the kernel tells of them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["children", "children_of", "unix_connections"]


def children(pid: int) -> list[str]:
    """Return the commands of the child processes of a process."""
    return list(children_of(pid).values())


def children_of(pid: int) -> dict[int, str]:
    """Return the child processes of a process by their ids, each with its command."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found[int(folder.name)] = (folder / "cmdline").read_text("utf-8")
        except OSError:
            continue  # a process that has ended meanwhile
    return found


def unix_connections(pid: int) -> int:
    """Return how many connections to or from Unix sockets a process has."""
    connected = set()
    for line in Path("/proc/net/unix").read_text("utf-8").splitlines()[1:]:
        _, _, _, _, _, state, inode, *_ = line.split()
        if state == "03":
            connected.add(f"socket:[{inode}]")
    found = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += str(link.readlink()) in connected
        except OSError:
            continue  # a descriptor that was closed meanwhile
    return found
