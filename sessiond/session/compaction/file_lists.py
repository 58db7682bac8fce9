"""File lists of a compaction as a model reads them, behind the text of the summary.

Law: a summary is stored as it was sent, and its lists are stored apart, in `details`. The text that
follows the summary in a context is made of the lists alone, so it is equal at every building.
"""

from __future__ import annotations

from collections.abc import Callable

from sessiond.session.compaction.touched_files import TouchedFiles

ListFiles = Callable[[TouchedFiles], str]
"""Function that writes the lists of files; "" without files."""


def file_blocks(files: TouchedFiles) -> str:
    """Return a block of lines between tags for each list that has a file."""
    named = {"read-files": files.read, "modified-files": files.modified}
    return "\n\n".join(
        "\n".join([f"<{tag}>", *paths, f"</{tag}>"]) for tag, paths in named.items() if paths
    )


def tagged(files: TouchedFiles) -> str:
    """Return the lists as pi and Operator write them behind a summary."""
    blocks = file_blocks(files)
    return f"\n\n{blocks}" if blocks else ""


def activity(files: TouchedFiles) -> str:
    """Return the lists as sharur writes them behind a summary."""
    named = {"Read": files.read, "Modified": files.modified}
    lines = [f"- {word}: {', '.join(paths)}\n" for word, paths in named.items() if paths]
    return f"\n\n### File Activity\n{''.join(lines)}" if lines else ""


def with_lists(summary: str, lists: str) -> str:
    """Return the summary with its lists behind it, unless it has them already."""
    return summary if lists.strip() in summary else summary + lists
