"""The store of a daemon: the profile's files, or a database that other daemons share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from sessiond.config.config_file import BadConfiguration
from sessiond.config.configuration import Configuration
from sessiond.daemon.output_of import output_of
from sessiond.errors import StorageError
from sessiond.service.files.store import FileStore
from sessiond.service.store.session_store import SessionStore

if TYPE_CHECKING:
    from sessiond.postgresql.examining import Examined
    from sessiond.service.database.database import SessionDatabase

_SCHEMA = "sessiond"
_SCHEMA_CHARS_MAX = 63


def store_of(files: FileStore, configuration: Configuration, profile: str) -> SessionStore:
    """Return the configured store over the profile's files. Blocking.

    Raises BadConfiguration, StorageError.
    """
    database = database_of(configuration, profile)
    if database is None:
        return files
    from sessiond.service.database.store import DatabaseStore

    return DatabaseStore(database, files)


def database_of(configuration: Configuration, profile: str) -> SessionDatabase | None:
    """Return the configured database, connected; None without one. Blocking.

    Raises BadConfiguration, StorageError.
    """
    if configuration.store is None:
        return None
    schema = _schema_of(profile)
    _require_driver()
    from sessiond.postgresql.database import PostgresqlDatabase

    password = _password(configuration.store_password_command)
    return PostgresqlDatabase(configuration.store, schema, password)


def database_facts(configuration: Configuration, profile: str) -> Iterator[Examined]:
    """Yield what is well and what is not with the configured database. Blocking.

    Raises BadConfiguration.
    """
    assert configuration.store is not None, "there is something to examine"
    schema = _schema_of(profile)
    _require_driver()
    from sessiond.postgresql.examining import examine

    return examine(configuration.store, schema, _password(configuration.store_password_command))


def _schema_of(profile: str) -> str:
    schema = _SCHEMA if profile == "default" else f"{_SCHEMA}_{profile}"
    if len(schema.encode()) > _SCHEMA_CHARS_MAX:
        text = f"the profile's name is too long for a schema: {schema} has more than 63 characters"
        raise BadConfiguration(text)
    return schema


def _require_driver() -> None:
    try:
        import_module("sessiond.postgresql.database")
    except ImportError:
        # Imported here: a daemon that starts lacks nothing.
        from sessiond.installation import adding

        text = f"store needs packages that are not installed: {adding('postgresql')}"
        raise BadConfiguration(text) from None


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
