"""Needs of a daemon in a schema: its tables, and rights on them.

The catalogs of PostgreSQL tell this to any role, so a lack is found before a statement fails for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from psycopg import Connection

_RIGHTS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
_ADDS: Final = ("SELECT", "INSERT", "UPDATE")
_EMPTIES: Final = ("SELECT", "INSERT", "DELETE")
# The version that brought each table, and what daemons do there.
_TABLES: Final[Mapping[str, tuple[int, tuple[str, ...]]]] = {
    "meta": (1, ("SELECT",)),
    "sessions": (1, _ADDS),
    "lines": (1, _EMPTIES),
    "daemons": (1, _RIGHTS),
    "numbers": (1, _ADDS),
    "documents": (2, _ADDS),
    "claims": (3, _RIGHTS),
    "senders": (5, _RIGHTS),
    "signals": (5, _EMPTIES),
}
_BACKUP: Final = "bring the schema back from a backup"
_SCHEMA: Final = """
SELECT has_schema_privilege(oid, 'USAGE'), has_schema_privilege(oid, 'CREATE')
    FROM pg_namespace WHERE nspname = %s
"""
_FOUND: Final = """
SELECT relname, pg_has_role(relowner, 'USAGE'), ARRAY(
    SELECT one FROM unnest(%s::text[]) AS one WHERE has_table_privilege(pg_class.oid, one)
) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = %s AND relname = ANY(%s)
"""


class Lack(Struct, frozen=True):
    """A thing that a daemon needs and does not find."""

    why: str
    advice: str
    errno: str


class Found(Struct, frozen=True):
    """The tables of daemons that are in a schema, and what the role may do."""

    rights: Mapping[str, frozenset[str]]
    """Rights of the role on each table that is there."""
    is_there: bool
    is_usable: bool
    is_owner: bool
    may_create: bool
    """True if the role can make the tables that are missing."""


def found_in(connection: Connection[Any], schema: str) -> Found:
    """Return what there is of a schema, which may not exist. Raises psycopg.Error."""
    row = connection.execute(_SCHEMA, [schema]).fetchone()
    tables = connection.execute(_FOUND, [list(_RIGHTS), schema, list(_TABLES)]).fetchall()
    is_there = row is not None
    if row is None:
        made = "SELECT has_database_privilege(current_database(), 'CREATE')"
        (may_create,) = connection.execute(made).fetchone() or (False,)
        row = (True, may_create)
    is_usable, may_create = row
    return Found(
        {name: frozenset(rights) for name, _, rights in tables},
        is_there=is_there,
        is_usable=is_usable,
        is_owner=all(is_owner for _, is_owner, _ in tables),
        may_create=may_create,
    )


def lacks_of(found: Found, schema: str) -> Iterator[Lack]:
    """Yield what keeps a daemon from reading the version of the tables, or from making them."""
    if not found.is_usable:
        why = f"the role may not use the schema {schema}"
        yield Lack(why, "grant the role USAGE on the schema", "EACCES")
    elif not found.rights:
        if not found.may_create:
            why = f"the role may not make the tables of the schema {schema}"
            then = "grant the role CREATE on the database, or on the schema if there is one"
            yield Lack(why, then, "EACCES")
    elif "meta" not in found.rights:
        yield _missing(("meta",), schema)
    elif "SELECT" not in found.rights["meta"]:
        yield from _rights(found, ("meta",))


def lacks_in(found: Found, schema: str, version: int, wanted: int) -> Iterator[Lack]:
    """Yield what daemons lack in tables of a version, which a start brings to the wanted one."""
    if not version:
        if found.rights:
            why = f"the schema {schema} has tables, and its table meta names no version of them"
            yield Lack(why, _BACKUP, "ENOENT")
        return
    needed = [name for name, (since, _) in _TABLES.items() if since <= version]
    missing = [name for name in needed if name not in found.rights]
    if missing:
        yield _missing(missing, schema)
    yield from _rights(found, [name for name in needed if name not in missing])
    if version < wanted and not (found.is_owner and found.may_create):
        why = f"the role may not bring the tables from version {version} to version {wanted}"
        yield Lack(why, "let the role own the schema and its tables", "EACCES")


def _missing(tables: Iterable[str], schema: str) -> Lack:
    names = ", ".join(tables)
    return Lack(f"the schema {schema} lacks tables of daemons: {names}", _BACKUP, "ENOENT")


def _rights(found: Found, tables: Iterable[str]) -> Iterator[Lack]:
    """Yield the rights that the role lacks on tables."""
    lacking = {
        name: [right for right in _TABLES[name][1] if right not in found.rights[name]]
        for name in tables
    }
    said = [f"{', '.join(rights)} on {name}" for name, rights in lacking.items() if rights]
    if said:
        why = f"the role lacks rights on tables: {'; '.join(said)}"
        yield Lack(why, "grant the rights to the role, or let the role own the schema", "EACCES")
