"""Configuration: flags over the environment over a TOML file over a preset over the defaults.

Law: an unknown key or a wrong value is an error that names its place and the allowed values; no
key is skipped.

    socket = "/run/user/1000/sessiond/default.sock"
    log_level = "info"
    idle_exit_seconds = 1800

    [limits]
    open_sessions = 512

In the environment: SESSIOND_LOG_LEVEL, SESSIOND_LIMITS_OPEN_SESSIONS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta, Struct

from sessiond import typed
from sessiond.config.addresses import has_secret
from sessiond.config.config_file import BadConfiguration, file_of
from sessiond.config.presets import RETENTION_PRESETS, RetentionPreset
from sessiond.limits import (
    CONFIG_BYTES_MAX,
    DEFAULT_BOUNDS,
    IDLE_EXIT_SECONDS,
    REDACTION_PATTERN_CHARS_MAX,
    REDACTION_PATTERNS_MAX,
    SUMMARIZE_SECONDS,
    Bounds,
)
from sessiond.model.formats import ROOT_KINDS
from sessiond.model.settings import CompactionSettings, PresetName, TokenizerName, Tokens
from sessiond.session.compaction.policy import CONTEXT_WINDOW, PRESETS

_Count = Annotated[int, Meta(ge=1, le=1_000_000)]
_Bytes = Annotated[int, Meta(ge=1 << 20, le=1 << 50)]
_Seconds = Annotated[float, Meta(ge=0, le=1e9)]
_Patterns = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=REDACTION_PATTERN_CHARS_MAX)], ...],
    Meta(max_length=REDACTION_PATTERNS_MAX),
]
_Words = tuple[Annotated[str, Meta(min_length=1, pattern=r"\A[^\0]*\Z")], ...]


_File = Annotated[str, Meta(pattern=r"\A(/|~/)[^\0]*\Z")]


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """Configurable limits."""

    open_sessions: _Count = DEFAULT_BOUNDS.open_sessions
    memory_sessions: _Count = DEFAULT_BOUNDS.memory_sessions
    connections: _Count = DEFAULT_BOUNDS.connections
    connections_per_process: _Count = DEFAULT_BOUNDS.connections_per_process
    sessions_per_connection: _Count = DEFAULT_BOUNDS.sessions_per_connection
    buffered_bytes: _Bytes = DEFAULT_BOUNDS.buffered_bytes
    index_bytes: _Bytes = DEFAULT_BOUNDS.index_bytes
    idle_session_seconds: _Seconds = DEFAULT_BOUNDS.idle_session_seconds

    def bounds(self, open_files: int) -> Bounds:
        """Return the limits as bounds of the service."""
        return Bounds(
            open_sessions=self.open_sessions,
            memory_sessions=self.memory_sessions,
            connections=self.connections,
            connections_per_process=self.connections_per_process,
            sessions_per_connection=self.sessions_per_connection,
            buffered_bytes=self.buffered_bytes,
            index_bytes=self.index_bytes,
            idle_session_seconds=self.idle_session_seconds,
            open_files=open_files,
        )


class Retention(Struct, frozen=True, forbid_unknown_fields=True):
    """Automatic retention: age at which sessions go to the trash.

    The preset sets this age and `limits.open_sessions`, where no source names these keys.
    """

    preset: RetentionPreset = "none"
    max_age_hours: _Seconds = 0.0


class Defaults(Struct, frozen=True, forbid_unknown_fields=True):
    """Values for new sessions that are created without them."""

    model: Annotated[str, Meta(min_length=1)] | None = None


class Compaction(Struct, frozen=True, forbid_unknown_fields=True):
    """Default compaction settings, for sessions that do not set their own."""

    enabled: bool = True
    preset: PresetName | None = None
    reserve_tokens: Tokens | None = None
    keep_recent_tokens: Tokens | None = None
    context_window: Annotated[int, Meta(ge=1, le=1_000_000_000)] = CONTEXT_WINDOW
    tokenizer: TokenizerName | None = None
    auto: bool = False

    def settings(self) -> CompactionSettings:
        """Return the values as compaction settings of a session."""
        return typed.convert(msgspec.structs.asdict(self), CompactionSettings)


class Summarizer(Struct, frozen=True, forbid_unknown_fields=True):
    """Program that writes summaries if no client does; no program if `command` is empty."""

    command: _Words = ()
    timeout_seconds: Annotated[float, Meta(ge=1, le=86_400)] = SUMMARIZE_SECONDS


class Export(Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns of texts that no exported document shows."""

    redact: _Patterns = ()


class Secrets(Struct, frozen=True, forbid_unknown_fields=True):
    """Source of the key of the secrets: a command, else a file; the profile's own file by default."""

    key_command: _Words = ()
    key_file: _File | None = None


_Folders = tuple[Annotated[str, Meta(pattern=r"\A(/|~/)[^\0]*\Z")], ...]


class Searches(Struct, frozen=True, forbid_unknown_fields=True):
    """Roots of whose sessions no output of a tool is searched."""

    no_outputs: _Folders = ()


_LISTS: Final = (_Words, _Folders, _Patterns)
# The word of `store` for files of the profile, which a setting shows as no value.
_FILES: Final = "files"


class Configuration(Struct, frozen=True, forbid_unknown_fields=True):
    """Complete configuration."""

    socket: str | None = None
    store: Annotated[str, Meta(pattern=rf"\A({_FILES}|postgres(ql)?://[^\0]*)\Z")] | None = None
    """Database of the sessions; None for files of the profile."""
    store_password_command: _Words = ()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    idle_exit_seconds: _Seconds = 0.0
    limits: Limits = Limits()
    retention: Retention = Retention()
    defaults: Defaults = Defaults()
    compaction: Compaction = Compaction()
    summarizer: Summarizer = Summarizer()
    export: Export = Export()
    secrets: Secrets = Secrets()
    search: Searches = Searches()
    roots: Mapping[str, _Folders] = {}
    """Folders of session files, by the dialect of the program that makes files there."""


# The allowed values of each key, as an error names them.
_ALLOWED: Final[Mapping[str, str]] = {
    "socket": "an absolute path",
    "store": "files, or postgresql://HOST/DATABASE without a secret: PGPASSWORD, a password file or"
    " store_password_command can say the password, a service file of libpq other secrets",
    "store_password_command": "a list of texts, the program first; in the environment, such a list"
    " as JSON",
    "log_level": "debug, info, warning or error",
    "idle_exit_seconds": "seconds, 0 for never",
    "limits.open_sessions": "a whole number from 1",
    "limits.memory_sessions": "a whole number from 1",
    "limits.connections": "a whole number from 1",
    "limits.connections_per_process": "a whole number from 1",
    "limits.sessions_per_connection": "a whole number from 1",
    "limits.buffered_bytes": "bytes, from 1048576",
    "limits.index_bytes": "bytes, from 1048576",
    "limits.idle_session_seconds": "seconds",
    "retention.preset": ", ".join(RETENTION_PRESETS),
    "retention.max_age_hours": "hours, 0 for off",
    "defaults.model": "the name of a model",
    "compaction.enabled": "true or false",
    "compaction.preset": ", ".join(PRESETS),
    "compaction.reserve_tokens": "a whole number from 0",
    "compaction.keep_recent_tokens": "a whole number from 0",
    "compaction.context_window": "a whole number from 1",
    "compaction.tokenizer": "the name of an entry point of the group sessiond.tokenizers",
    "compaction.auto": "true or false",
    "summarizer.command": "a list of texts, the program first; in the environment, such a list as JSON",
    "summarizer.timeout_seconds": "seconds, from 1",
    "export.redact": "a list of regular expressions; in the environment, such a list as JSON",
    "secrets.key_command": "a list of texts, the program first; in the environment, such a list as JSON",
    "secrets.key_file": "an absolute path or one that begins with ~/",
    "search.no_outputs": "a list of folders, each an absolute path or one that begins with ~/; in the environment,"
    " such a list as JSON",
} | dict.fromkeys(
    (f"roots.{kind}" for kind in ROOT_KINDS),
    "a list of folders, each an absolute path or one that begins with ~/; in the environment, such"
    " a list as JSON",
)


JOINED_DEFAULTS: Final[Mapping[str, Any]] = {"idle_exit_seconds": IDLE_EXIT_SECONDS}
"""Defaults that differ for a daemon that a client's need has started."""


class Sources(Struct, frozen=True):
    """Sources of the settings."""

    environ: Mapping[str, str]
    named: str | None = None
    """Path of the file that was asked for; None = the default file, if it exists."""
    flags: Mapping[str, Any] = {}
    """Values of flags by key; only flags that were given."""
    defaults: Mapping[str, Any] = {}
    """Defaults by key that differ from the usual ones."""


class Setting(Struct, frozen=True):
    """Effective value of one key, and its source."""

    key: str
    value: str | int | float | Sequence[str] | None
    source: str


def load(sources: Sources) -> tuple[Configuration, list[Setting]]:
    """Return the effective configuration, and each setting with its source. Raise BadConfiguration."""
    file = file_of(sources.environ, sources.named)
    in_file = dict(_file_values(file)) if file is not None else {}
    _no_strangers(sources.environ)
    settings: list[Setting] = []
    tree: dict[str, Any] = {}

    def named(key: str) -> tuple[str, Any] | None:
        """Return the first source that names a key, and the value there."""
        variable = _variable(key)
        if key in sources.flags:
            return "flag", sources.flags[key]
        if sources.environ.get(variable):
            return f"${variable}", sources.environ[variable]
        return (str(file), in_file[key]) if key in in_file else None

    preset = _preset(named)
    for key, kind, usual in _keys():
        default = ("default", sources.defaults.get(key, usual))
        source, value = named(key) or preset.get(key, default)
        checked = _checked(key, kind, value, source)
        settings.append(Setting(key, checked, source))
        section, _, name = key.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[name] = checked
    tree["roots"] = {kind: folders for kind, folders in tree["roots"].items() if folders}
    return typed.convert(tree, Configuration), settings


def _preset(named: Callable[[str], tuple[str, Any] | None]) -> Mapping[str, tuple[str, Any]]:
    """Return the source and the value of each key that the preset of retention sets."""
    key = "retention.preset"
    source, value = named(key) or ("default", "none")
    name = _checked(key, RetentionPreset, value, source)
    return {key: (f"preset {name}", value) for key, value in RETENTION_PRESETS[name].items()}


@cache
def _keys() -> Sequence[tuple[str, Any, Any]]:
    """Return every key with its type and its default."""
    return tuple(_keys_in(Configuration, ""))


def _keys_in(kind: type[Struct], section: str) -> Iterator[tuple[str, Any, Any]]:
    for field in msgspec.structs.fields(kind):
        kept: Any = field.type
        if isinstance(kept, type) and issubclass(kept, Struct):
            yield from _keys_in(kept, f"{field.name}.")
        elif field.name == "roots":
            yield from ((f"roots.{kind}", _Folders, ()) for kind in ROOT_KINDS)
        else:
            yield section + field.name, kept, field.default


def _no_strangers(environ: Mapping[str, str]) -> None:
    """Raise BadConfiguration for a variable of a section that is no key of the section."""
    keys = [key for key, _, _ in _keys() if "." in key]
    known = {_variable(key) for key in keys}
    sections = tuple({_variable(key.partition(".")[0]) + "_" for key in keys})
    for name in environ:
        if name.startswith(sections) and name not in known:
            allowed = ", ".join(sorted(known))
            raise BadConfiguration(f"${name} is not a key; the keys of sections are {allowed}")


def _variable(key: str) -> str:
    return "SESSIOND_" + key.upper().replace(".", "_").replace("-", "_")


def _checked(key: str, kind: Any, value: Any, source: str) -> Any:
    try:
        if kind in _LISTS and source.startswith("$"):
            return typed.decode(value, kind)
        # A number from the environment is text; a number from the file must be a TOML number.
        checked = typed.convert(value, kind, strict=not source.startswith("$"))
    except msgspec.DecodeError as error:
        raise _wrong(key, value, source) from error
    if checked != checked:
        raise _wrong(key, value, source)
    if kind is _Patterns:
        _require_patterns(key, checked, source)
    if key == "store" and isinstance(checked, str):
        if has_secret(checked):
            why = "has a password or another secret in it, and settings are shown: take it out"
            raise BadConfiguration(f"{source}: {key} {why}; allowed: {_ALLOWED[key]}")
        return None if checked == _FILES else checked
    if key == "socket" and isinstance(checked, str):
        path = Path(checked).expanduser()
        if not path.is_absolute() and source != "flag":
            raise _wrong(key, value, source)
        return str(path.absolute())
    return checked


def _require_patterns(key: str, patterns: Sequence[str], source: str) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, OverflowError) as error:
            raise BadConfiguration(
                f"{source}: {key} has {pattern!r}, which is no regular expression: {error}"
            ) from error


def _wrong(key: str, value: object, source: str) -> BadConfiguration:
    # A wrong address of a database may hold a secret.
    shown = "another text" if key == "store" else repr(value)
    return BadConfiguration(f"{source}: {key} is {shown}; allowed: {_ALLOWED[key]}")


def _file_values(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of a file. Raise BadConfiguration."""
    import tomllib

    try:
        with path.open("rb") as file:
            text = file.read(CONFIG_BYTES_MAX + 1)
        if len(text) > CONFIG_BYTES_MAX:
            raise BadConfiguration(f"{path} is longer than {CONFIG_BYTES_MAX} bytes")
        table: dict[str, Any] = tomllib.loads(text.decode("utf-8"))
    except OSError as error:
        raise BadConfiguration(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadConfiguration(f"{path} is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise BadConfiguration(f"{path} is not TOML: {error}") from error
    known = [key for key, _, _ in _keys()]
    sections = {key.partition(".")[0] for key in known if "." in key}
    for name, value in table.items():
        if name not in sections:
            yield _known(path, name, known), value
        elif isinstance(value, dict):
            section = cast("dict[str, Any]", value)
            for inner, inner_value in section.items():
                yield _known(path, f"{name}.{inner}", known), inner_value
        else:
            raise BadConfiguration(f"{path}: {name} is a section: write [{name}]")


def _known(path: Path, key: str, known: list[str]) -> str:
    if key not in known:
        raise BadConfiguration(f"{path}: {key} is not a key; the keys are {', '.join(known)}")
    return key
