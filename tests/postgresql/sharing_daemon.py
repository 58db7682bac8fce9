"""The real daemon in a process of its own, with its sessions in a database."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.processes.harness.daemon import Daemon

__all__ = ["SharingDaemon"]


class SharingDaemon(Daemon):
    """A daemon with a home of its own."""

    def __init__(
        self, socket_path: Path, home: Path, host: Path, *more: Path, role: str = "tests"
    ) -> None:
        """Take the folders of the sockets of servers, of which one takes writes."""
        super().__init__(socket_path, home)
        hosts = ",".join(map(str, (host, *more)))
        self.settings = {"SESSIOND_STORE": f"postgresql:///postgres?host={hosts}&user={role}"}

    @classmethod
    def pair(cls, server: Path, homes: Path) -> tuple[SharingDaemon, SharingDaemon]:
        """Return two daemons on the server in a folder, each with a home of its own."""
        one, two = (cls(server / f"{at}.sock", homes / f"home-{at}", server) for at in (1, 2))
        return one, two

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment of the process."""
        return {**super().environment, **self.settings}

    @property
    def has_ended(self) -> bool:
        """True if the process has ended by itself."""
        assert self._process is not None
        return self._process.poll() is not None
