"""Drafts of the state store: a change that is refused has changed nothing."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec import Raw

from sessiond.errors import RevisionMismatch
from sessiond.state.document import Document, Draft, Moment, Write


def test_a_refused_block_leaves_the_size_as_it_was() -> None:
    numbers = count(1)
    now = Moment("2026-01-15T10:30:00.000Z", 0, lambda: next(numbers))
    draft = Draft(Document("notes"), now, bytes_max=1000)
    draft.put(Write("kept", Raw(b'"value"')))
    before = draft.size

    def two_writes() -> None:
        with draft.all_or_nothing():
            draft.put(Write("refused", Raw(b'"%b"' % (b"x" * 300))))
            draft.put(Write("kept", Raw(b"1"), expected=99))

    for _ in range(3):
        with pytest.raises(RevisionMismatch):
            two_writes()
    assert draft.size == before == Document("notes", records=draft.records).size
    # There is room for as much as before.
    draft.put(Write("next", Raw(b'"%b"' % (b"x" * 300))))
