"""Changes that a transaction made to what lists show, in the terms of catalog/changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from sessiond.catalog.rows import Shown, Stored
from sessiond.model.events import CatalogChange


class Changes:
    """Changes collected over one or more transactions. Changes of drafts are not told.

    `words` holds the known changes of sessions as a whole; each is used once, by the next scan at the latest.
    """

    def __init__(self, words: dict[str, CatalogChange]) -> None:
        self.any = False
        """True if lists show something else since this was last set to False."""
        self.told: list[tuple[str, CatalogChange]] = []
        self._words = words

    def add(
        self,
        before: Mapping[str, Shown],
        rows: Sequence[Stored],
        gone: Sequence[str],
        created: Set[str] | None = None,
    ) -> None:
        """Compare the rows shown before with the rows shown now.

        `created` holds the sessions that may count as new; None if every new row does.
        """
        for row in rows:
            was = before.get(row.session_id)
            if was is not None and was.info == row.info:
                self._words.pop(row.session_id, None)
                continue
            self.any = True
            if not row.facts.draft:
                self._tell(row, was, created)
        for session_id in gone:
            was = before.get(session_id)
            self._words.pop(session_id, None)
            self.any = self.any or was is not None
            if was is not None and not was.draft:
                self.told.append((session_id, "deleted"))

    def _tell(self, row: Stored, was: Shown | None, created: Set[str] | None) -> None:
        session_id = row.session_id
        word: CatalogChange = "updated"
        if was is None or was.draft:
            if was is None and created is not None and session_id not in created:
                return
            word = "created"
        elif was.archived != row.facts.archived:
            word = "archived" if row.facts.archived else "unarchived"
        known = self._words.pop(session_id, word)
        # A session that is there may have been deleted before, or was spared by a clean-up.
        self.told.append((session_id, word if known == "deleted" else known))
