"""Configuration in force, and the part of it that can change while the daemon runs.

Law: a configuration is taken as a whole or not at all; keys that need a restart are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import anyio

from sessiond.config.config_file import BadConfiguration
from sessiond.config.configuration import Configuration, Sources, load
from sessiond.limits import Bounds
from sessiond.service.service import Service

# Keys that need a restart.
_AT_START = ("socket", "store", "store_password_command")

_log = logging.getLogger("sessiond")


class Tuning:
    """Configuration that the daemon runs with."""

    def __init__(self, sources: Sources, open_files: int) -> None:
        """Load the configuration. Raise BadConfiguration."""
        self._sources = sources
        self._open_files = open_files
        self.current, _ = load(sources)
        self._at_start = self.current
        self.changed = anyio.Event()
        """Event that is set, and replaced, when another configuration is in force."""

    @property
    def bounds(self) -> Bounds:
        """Bounds in force."""
        return self.current.limits.bounds(self._open_files)

    @property
    def root_settings(self) -> tuple[Mapping[str, Sequence[str]], Sequence[str]]:
        """Roots by kind, and the roots of which no outputs are searched."""
        return self.current.roots, self.current.search.no_outputs

    def set_level(self) -> None:
        """Set the log level of the configuration."""
        logging.getLogger().setLevel(self.current.log_level.upper())

    def read_again(self) -> Configuration | None:
        """Return the current configuration; log and return None for a bad one. Blocking."""
        try:
            return load(self._sources)[0]
        except (BadConfiguration, OSError) as error:
            _log.error("configuration kept", extra={"reason": str(error)})
            return None

    def govern(self, service: Service) -> None:
        """Give the service the bounds and the policies in force."""
        service.bounds = self.bounds
        service.environment.policies.usual = self.current.compaction.settings()
        service.environment.policies.redact = self.current.export.redact
        service.environment.policies.model = self.current.defaults.model
        service.note_use()

    def take(self, fresh: Configuration, service: Service | None) -> None:
        """Put the changeable part of a configuration into force; log the rest.

        A service that does not exist yet takes the current configuration when it begins.
        """
        changed = [
            name
            for name in fresh.__struct_fields__
            if getattr(fresh, name) != getattr(self.current, name)
        ]
        before = self.root_settings
        self.current = fresh
        self.set_level()
        if service is not None:
            self.govern(service)
            if self.root_settings != before:
                service.configure_roots(*self.root_settings)
        self.changed.set()
        self.changed = anyio.Event()
        _log.info("configuration read", extra={"changed": changed})
        keys = [key for key in _AT_START if getattr(fresh, key) != getattr(self._at_start, key)]
        if keys:
            _log.warning("configuration needs a restart", extra={"keys": keys})
