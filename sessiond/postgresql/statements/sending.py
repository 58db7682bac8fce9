"""An append on its way to the server: the port `SentAppend`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sessiond.postgresql.statements.appending import AppendCall, Appended
from sessiond.postgresql.statements.prepared import Forsaken
from sessiond.service.database.database import Head


class SentCall:
    """An append that libpq sends, and the use of a connection that ends with the append."""

    def __init__(
        self,
        call: AppendCall,
        ends: AbstractContextManager[object],
        kept: Callable[[Appended], Head | None],
    ) -> None:
        """Send an append, and wait for nothing. Take what ends the use of the connection, and what judges the outcome."""
        self._call = call
        self._ends = ends
        self._kept = kept
        self._failure: Exception | None = None
        try:
            call.send()
        except Exception as error:  # noqa: BLE001 - the use of the connection ends with `stored`
            # The server may have got the append nevertheless.
            self._failure = error

    def stored(self) -> Head | None:
        """Wait for the outcome. Raises StorageError."""
        with self._ends:
            if self._failure is not None:
                raise self._failure
            try:
                appended = self._call.answer()
            except Forsaken:
                # Any other end of the connection leaves the outcome unknown.
                return None
        return self._kept(appended)
