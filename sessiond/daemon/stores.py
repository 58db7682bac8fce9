"""The store of a daemon: the profile's files, or a database that other daemons share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sessiond.config.config_file import BadConfiguration
from sessiond.config.configuration import Configuration
from sessiond.daemon.output_of import output_of
from sessiond.errors import StorageError
from sessiond.service.files.store import FileStore
from sessiond.service.store.session_store import SessionStore

__all__ = ["store_of"]

_SCHEMA = "sessiond"
_SCHEMA_CHARS_MAX = 63


def store_of(files: FileStore, configuration: Configuration, profile: str) -> SessionStore:
    """Return the configured store over the profile's files. Blocking.

    Raises BadConfiguration, StorageError.
    """
    if configuration.store is None:
        return files
    schema = _SCHEMA if profile == "default" else f"{_SCHEMA}_{profile}"
    if len(schema.encode()) > _SCHEMA_CHARS_MAX:
        text = f"the profile's name is too long for a schema: {schema} has more than 63 characters"
        raise BadConfiguration(text)
    try:
        from sessiond.postgresql.database import PostgresqlDatabase
    except ImportError:
        text = "store needs packages that are not installed: pip install 'sessiond[postgresql]'"
        raise BadConfiguration(text) from None
    from sessiond.service.database.store import DatabaseStore

    password = _password(configuration.store_password_command)
    return DatabaseStore(PostgresqlDatabase(configuration.store, schema, password), files)


def _password(command: Sequence[str]) -> Callable[[], str] | None:
    """Return what asks for the password at each connection; None leaves the password to libpq."""
    if not command:
        return None

    def failed(why: str) -> StorageError:
        text = f"the password command {why}: mend store_password_command in the configuration"
        return StorageError(text, errno="EACCES", path="store_password_command", retryable=False)

    def ask() -> str:
        said = output_of(command, failed).decode(errors="replace").splitlines()
        return said[0] if said else ""

    return ask
