"""Plain: JSON files that other programs keep, as values of namespaces, and back.

Law: the files are read and never written. What does not become a value is reported, with its reason
and without content.

A folder is the `state` folder of Construct: each of its files is a JSON object. `credentials.json` is
encrypted in a way that no document tells, and `sessions.json` is the index of session files.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.errors import InvalidParams, StorageError
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.names import namespace_in
from sessiond.limits import STATE_VALUE_BYTES_MAX
from sessiond.model.escapes import whole_characters
from sessiond.model.ids import is_open_namespace, is_state_key
from sessiond.model.nesting import nests_too_deeply
from sessiond.state.folder import read_whole
from sessiond.visible import printable

_NOT_LOADED: Final = {
    "credentials.json": (
        "credentials are encrypted in a way that sessiond does not know: store each one again"
        " with secret/set"
    ),
    "sessions.json": "the index of sessions is no document: session/import takes the session files",
}


class LoadProblem(Struct, frozen=True, omit_defaults=True):
    """File that was not loaded, or with `key` a member of a file that was not."""

    path: str
    reason: str
    key: str | None = None


class PlainFile(Struct, frozen=True):
    """Members of a JSON file that become the values of a namespace."""

    namespace: str
    values: Mapping[str, Raw]


def read_plain(
    files: Files, path: Path, namespace: str | None
) -> tuple[list[PlainFile], list[LoadProblem]]:
    """Return what a file, or each file of a folder, holds. Raises InvalidParams, StorageError."""
    with telling("read", path):
        is_folder = _is_folder(files, path)
    if not is_folder:
        name = namespace or _namespace_in(path.name)
        if name is None:
            raise InvalidParams(
                "the name of the file gives no namespace: name one with namespace",
                path="namespace",
            )
        problems: list[LoadProblem] = []
        return _loaded(files, path, name, problems), problems
    if namespace is not None:
        raise InvalidParams("each file of a folder is a namespace of its own", path="namespace")
    return _read_folder(files, path)


def as_plain(values: Iterable[tuple[str, Raw]]) -> Iterator[bytes]:
    """Yield a JSON object with the values, each as its own bytes."""
    before = b"{\n  "
    for key, value in values:
        yield b"%b%b: %b" % (before, msgspec.json.encode(key), bytes(value))
        before = b",\n  "
    yield b"{}\n" if before[:1] == b"{" else b"\n}\n"


def _read_folder(files: Files, folder: Path) -> tuple[list[PlainFile], list[LoadProblem]]:
    with telling("list", folder):
        names = sorted(name for name in files.listdir(folder) if not name.startswith("."))
    found: list[PlainFile] = []
    problems: list[LoadProblem] = []
    for name in names:
        path, namespace = folder / name, _namespace_in(name)
        if namespace is None:
            problems.append(LoadProblem(printable(path), "its name is no namespace and .json"))
            continue
        try:
            found += _loaded(files, path, namespace, problems)
        except StorageError as error:
            problems.append(LoadProblem(printable(path), error.message))
    if not names:
        raise InvalidParams("the folder is empty: name a folder of .json files", path="path")
    return found, problems


def _namespace_in(name: str) -> str | None:
    """Return the namespace in the name of a file; None also for the daemon's own ones."""
    namespace = namespace_in(name)
    return namespace if namespace is not None and is_open_namespace(namespace) else None


def _loaded(
    files: Files, path: Path, namespace: str, problems: list[LoadProblem]
) -> list[PlainFile]:
    reason = _NOT_LOADED.get(path.name)
    if reason is None:
        with telling("read", path):
            data, _ = read_whole(files, path)
        reason = _why_not(data)
    else:
        data = b""
    if reason is not None:
        problems.append(LoadProblem(printable(path), reason))
        return []
    values: dict[str, Raw] = {}
    for key, value in typed.decode(data, dict[str, Raw]).items():
        why = _why_no_value(key, value)
        if why is None:
            # A value of its own does not keep the whole file in memory.
            values[key] = value.copy()
        else:
            problems.append(LoadProblem(printable(path), why, key[:256]))
    return [PlainFile(namespace, values)]


def _why_not(data: bytes) -> str | None:
    """Return why a file has no members to load; None if it has."""
    try:
        data.decode()
        if nests_too_deeply(data):
            return "it is nested too deeply"
        typed.decode(data, dict[str, Raw])
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except msgspec.ValidationError:
        return "it is no JSON object"
    except (msgspec.DecodeError, RecursionError):
        if whole_characters(data) != data:
            return "it is not JSON, or a text in it holds half of a surrogate pair (as \\ud83d)"
        return "it is not JSON"
    return None


def _why_no_value(key: str, value: Raw) -> str | None:
    """Return why a member becomes no value; None if it does."""
    if not is_state_key(key):
        return "its name is no key"
    if len(value) > STATE_VALUE_BYTES_MAX:
        return f"it is larger than a value may be ({STATE_VALUE_BYTES_MAX} bytes)"
    return None


def _is_folder(files: Files, path: Path) -> bool:
    return stat.S_ISDIR(files.stat(path).st_mode)
