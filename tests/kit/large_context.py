"""Session whose context is larger than an answer, as every client must be able to read it."""

from __future__ import annotations

from typing import Any, Final

from sessiond_client import BlockingClient

__all__ = ["COUNT", "LETTERS", "put_large_context", "require_large_context"]

COUNT: Final = 4
LETTERS: Final = 23 * 1024 * 1024


def put_large_context(client: BlockingClient, session_id: str) -> None:
    """Create a session of four messages, three of them of 23 MB."""
    client.create(cwd="/my/project", session_id=session_id, persist="immediate")
    for n in range(COUNT):
        said = f"{n}" * LETTERS if n else "look at the pages"
        client.append(session_id, message={"role": "user", "content": said})


def require_large_context(beginnings: list[Any], lengths: list[int], sources: int) -> None:
    """Require the first characters and the lengths of the contents of that context, and a source for each."""
    assert beginnings == ["l", "1", "2", "3"]
    assert lengths == [len("look at the pages"), LETTERS, LETTERS, LETTERS]
    assert sources == COUNT
