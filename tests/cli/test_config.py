"""The configuration: who wins, what is refused and how that is said."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from platformdirs import user_config_path

from sessiond import limits
from sessiond.config import configuration as config_module
from sessiond.config.config_file import BadConfiguration, default_file
from sessiond.config.configuration import Configuration, Sources, load
from sessiond.model.formats import ROOT_KINDS
from sessiond.model.settings import CompactionSettings

EVERYTHING = """
socket = "/s.sock"
store = "postgresql://db.example/agents?sslmode=verify-full"
store_password_command = ["pass", "show", "db"]
log_level = "debug"
idle_exit_seconds = 60

[limits]
open_sessions = 10
memory_sessions = 20
connections = 30
connections_per_process = 31
sessions_per_connection = 32
buffered_bytes = 33000000
index_bytes = 34000000
idle_session_seconds = 40.5

[retention]
preset = "nova"
max_age_hours = 50

[defaults]
model = "m-1"

[compaction]
enabled = false
preset = "operator"
reserve_tokens = 0
keep_recent_tokens = 60
context_window = 70
tokenizer = "words"
auto = true

[export]
redact = ["sk-[a-z]+"]

[summarizer]
command = ["summarize", "--stdin"]
timeout_seconds = 80

[secrets]
key_command = ["pass", "show", "key"]
key_file = "~/my.key"

[search]
no_outputs = ["~/pi"]

[roots]
"""


EVERYTHING += "".join(f'{kind} = ["~/{kind}", "/x"]\n' for kind in ROOT_KINDS)


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(text: str) -> Sources:
        path = tmp_path / "config.toml"
        path.write_text(text, "utf-8")
        return Sources({}, str(path))

    return write


def test_without_any_source_the_defaults_are_those_of_limits(home: Path) -> None:
    configuration, settings = load(Sources({}))
    assert configuration == Configuration()
    assert configuration.limits.bounds(7) == limits.DEFAULT_BOUNDS._replace(open_files=7)
    assert {setting.source for setting in settings} == {"default"}


def test_every_key_can_be_written_in_the_file(written: Any, tmp_path: Path) -> None:
    configuration, settings = load(written(EVERYTHING))
    assert {setting.source for setting in settings} == {str(tmp_path / "config.toml")}
    assert configuration.socket == "/s.sock"
    assert configuration.store == "postgresql://db.example/agents?sslmode=verify-full"
    assert configuration.store_password_command == ("pass", "show", "db")
    assert configuration.limits == config_module.Limits(
        10, 20, 30, 31, 32, 33_000_000, 34_000_000, idle_session_seconds=40.5
    )
    assert configuration.retention.max_age_hours == 50
    assert configuration.defaults.model == "m-1"
    assert configuration.compaction.settings() == CompactionSettings(
        enabled=False,
        reserve_tokens=0,
        keep_recent_tokens=60,
        context_window=70,
        preset="operator",
        tokenizer="words",
        auto=True,
    )
    assert configuration.summarizer.command == ("summarize", "--stdin")
    assert configuration.summarizer.timeout_seconds == 80
    assert configuration.export.redact == ("sk-[a-z]+",)
    assert configuration.secrets.key_command == ("pass", "show", "key")
    assert configuration.secrets.key_file == "~/my.key"
    assert configuration.search.no_outputs == ("~/pi",)
    assert configuration.roots["pi"] == ("~/pi", "/x")
    assert configuration.roots.keys() == set(ROOT_KINDS)
    assert [setting.key for setting in settings] == list(config_module._ALLOWED)


@pytest.mark.parametrize("folders", ["'/x'", "['x']", "['']", "[1]"])
def test_a_root_is_an_absolute_folder_of_a_known_kind(written: Any, folders: str) -> None:
    with pytest.raises(BadConfiguration, match=r"roots\.pi is .* allowed: a list of folders"):
        load(written(f"[roots]\npi = {folders}\n"))
    with pytest.raises(BadConfiguration, match=r"roots\.vi is not a key; .*roots\.pi"):
        load(written(f"[roots]\nvi = {folders}\n"))


def test_roots_of_the_environment_are_a_list_as_json() -> None:
    configuration, _ = load(Sources({"SESSIOND_ROOTS_PI": '["/x","~/y"]'}))
    assert configuration.roots == {"pi": ("/x", "~/y")}


def test_flags_go_over_the_environment_over_the_file_over_defaults(written: Any) -> None:
    file = written("log_level = 'debug'\nidle_exit_seconds = 1\n[limits]\nopen_sessions = 5\n")
    environ = {"SESSIOND_IDLE_EXIT_SECONDS": "2", "SESSIOND_LIMITS_CONNECTIONS": "9"}
    sources = structs.replace(
        file,
        environ=environ,
        flags={"idle_exit_seconds": 3.0},
        defaults={"idle_exit_seconds": 1800.0},
    )
    configuration, settings = load(sources)
    assert configuration.idle_exit_seconds == 3
    assert configuration.limits.connections == 9
    assert configuration.limits.open_sessions == 5
    assert configuration.limits.memory_sessions == limits.MEMORY_SESSIONS_MAX
    found = {setting.key: setting.source for setting in settings}
    assert found["idle_exit_seconds"] == "flag"
    assert found["limits.connections"] == "$SESSIOND_LIMITS_CONNECTIONS"
    assert load(structs.replace(sources, flags={}))[0].idle_exit_seconds == 2
    assert load(structs.replace(sources, flags={}, environ={}))[0].idle_exit_seconds == 1
    assert load(Sources({}, defaults={"idle_exit_seconds": 7}))[0].idle_exit_seconds == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sockt = '/s'", "config.toml: sockt is not a key; the keys are socket, store,"),
        ("[limits]\nopen = 1", "config.toml: limits.open is not a key"),
        ("[limit]\nopen_sessions = 1", "config.toml: limit is not a key"),
        ("limits = 1", "config.toml: limits is a section: write [limits]"),
        ("log_level = 'loud'", "log_level is 'loud'; allowed: debug, info, warning or error"),
        ("[limits]\nopen_sessions = 0", "limits.open_sessions is 0; allowed: a whole number"),
        ("[limits]\nopen_sessions = '5'", "limits.open_sessions is '5'; allowed: a whole"),
        ("[limits]\nopen_sessions = true", "limits.open_sessions is True; allowed: a whole"),
        ("idle_exit_seconds = -1", "idle_exit_seconds is -1; allowed: seconds, 0 for never"),
        ("idle_exit_seconds = nan", "idle_exit_seconds is nan; allowed: seconds"),
        ("idle_exit_seconds = inf", "idle_exit_seconds is inf; allowed: seconds"),
        ("socket = 's.sock'", "socket is 's.sock'; allowed: an absolute path"),
        (
            "store = 'sqlite:///x'",
            "store is another text; allowed: files, or postgresql://HOST/DATABASE with",
        ),
        ("store_password_command = 'pw'", "store_password_command is 'pw'; allowed: a list of"),
        ("socket = [1]", "socket is [1]; allowed: an absolute path"),
        (
            "[summarizer]\ncommand = 'sh -c x'",
            "summarizer.command is 'sh -c x'; allowed: a list of",
        ),
        ("[summarizer]\ncommand = ['a', 1]", "summarizer.command is ['a', 1]; allowed: a list of"),
        ("[summarizer]\ncommand = ['']", "summarizer.command is ['']; allowed: a list of"),
        ("[export]\nredact = 'x'", "export.redact is 'x'; allowed: a list of regular expressions"),
        ("[export]\nredact = ['']", "export.redact is ['']; allowed: a list of regular"),
        ("[export]\nredact = ['(']", "export.redact has '(', which is no regular expression:"),
        ("[summarizer]\ntimeout_seconds = 0", "timeout_seconds is 0; allowed: seconds, from 1"),
        ("[defaults]\nmodel = ''", "defaults.model is ''; allowed: the name of a model"),
        ("[retention]\npreset = 'pi'", "retention.preset is 'pi'; allowed: none, nova"),
        ("log_level =", "config.toml is not TOML: "),
        ("\ud800", "config.toml is not UTF-8"),
        ("#" * (limits.CONFIG_BYTES_MAX + 1), "config.toml is longer than 1048576 bytes"),
    ],
)
def test_what_is_not_understood_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadConfiguration, match=re.escape(said)):
        load(Sources({}, str(path)))


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:S3CRET@h/d",
        "postgresql://u:S3CRET@[h/d",
        "postgresql://u:what?S3CRET@h/d",
        "postgresql://u:what/S3CRET@h/d",
        "postgres://h/d?password=S3CRET",
        "postgres://h/d#x?password=S3CRET",
        "postgres://h/d?sslmode=require&sslpassword=S3CRET",
        "postgres://h/d?ssl%70assword=S3CRET",
        "postgres://h/d?oauth_client_secret=S3CRET",
        "postgres://h/d?scram_client_key=S3CRET",
        "postgres://h/d?scram_server_key=S3CRET",
        "postgres://h/d?a_later_token=S3CRET",
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_shown(written: Any, address: str) -> None:
    said = "store has a password or another secret .*store_password_command"
    with pytest.raises(BadConfiguration, match=said) as refused:
        load(written(f"store = '{address}'"))
    assert "S3CRET" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u@h:5432,i:5433/d?sslmode=verify-full&target_session_attrs=any",
        "postgresql:///d?host=/run&user=u@tenant&application_name=a:b@c",
        "postgresql://[::1]:5432/d?require_auth=scram-sha-256&passfile=/f&sslkey=/k",
        "postgresql://?service=s",
    ],
)
def test_an_address_without_a_secret_is_taken_as_it_is(written: Any, address: str) -> None:
    assert load(written(f"store = '{address}'"))[0].store == address


def test_the_store_may_be_said_to_be_the_files() -> None:
    environ = {"SESSIOND_STORE": "files"}
    configuration, settings = load(Sources(environ))
    assert configuration.store is None
    assert [(one.value, one.source) for one in settings if one.key == "store"] == [
        (None, "$SESSIOND_STORE")
    ]


def test_a_preset_of_retention_stands_below_every_key_that_is_named(written: Any) -> None:
    def read(text: str, **environ: str) -> tuple[float, int, set[str]]:
        sources = written(f"[retention]\npreset = 'nova'\n{text}")
        configuration, settings = load(Sources(environ, sources.named))
        presets = {each.key for each in settings if each.source == "preset nova"}
        return configuration.retention.max_age_hours, configuration.limits.open_sessions, presets

    age, bound = "retention.max_age_hours", "limits.open_sessions"
    assert read("") == (24, 100, {age, bound})
    assert read("max_age_hours = 72") == (72, 100, {bound})
    assert read("max_age_hours = 0") == (0, 100, {bound})
    assert read("[limits]\nopen_sessions = 512") == (24, 512, {age})
    assert read("", SESSIOND_LIMITS_OPEN_SESSIONS="7") == (24, 7, {age})
    assert read("", SESSIOND_RETENTION_PRESET="none") == (0, 512, set())
    assert load(Sources({"SESSIOND_RETENTION_PRESET": "nova"}))[0].retention.max_age_hours == 24


def test_a_bad_value_in_the_environment_is_named_with_its_variable() -> None:
    with pytest.raises(
        BadConfiguration, match=r"\$SESSIOND_LIMITS_CONNECTIONS: limits.connections is"
    ):
        load(Sources({"SESSIOND_LIMITS_CONNECTIONS": "many"}))


def test_a_command_in_the_environment_is_a_list_as_json() -> None:
    variable = "SESSIOND_SUMMARIZER_COMMAND"
    configuration, _ = load(Sources({variable: '["a b", "c"]'}))
    assert configuration.summarizer.command == ("a b", "c")
    for bad in ("a b", '"a"', "[1]"):
        with pytest.raises(BadConfiguration, match=r"\$SESSIOND_SUMMARIZER_COMMAND: summarizer"):
            load(Sources({variable: bad}))


def test_a_variable_of_a_section_that_is_no_key_is_named() -> None:
    for name in ("SESSIOND_LIMITS_OPEN_SESSION", "SESSIOND_RETENTION_"):
        said = re.escape(f"${name} is not a key; the keys of sections are SESSIOND_COMPACTION")
        with pytest.raises(BadConfiguration, match=said):
            load(Sources({name: "64"}))
    load(Sources({"SESSIOND_FIXTURES": "a folder", "SESSIOND_LIMITS": "", "SESSIOND_HOME": "/"}))


def test_a_file_that_may_not_be_looked_for_is_one_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(Path, "exists", refuse)
    for sources in (Sources({}), Sources({}, "/root/config.toml")):
        with pytest.raises(BadConfiguration, match="cannot be read: Permission denied"):
            load(sources)


def test_a_file_that_was_named_must_be_there_and_be_a_file(tmp_path: Path, home: Path) -> None:
    with pytest.raises(BadConfiguration, match="there is no configuration file"):
        load(Sources({}, str(tmp_path / "none.toml")))
    with pytest.raises(BadConfiguration, match="there is no configuration file"):
        load(Sources({"SESSIOND_CONFIG": str(tmp_path / "none.toml")}))
    with pytest.raises(BadConfiguration, match="cannot be read"):
        load(Sources({}, str(tmp_path)))


def test_the_usual_file_is_where_the_platform_keeps_such_files(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usual() -> Path:
        return user_config_path("sessiond", appauthor=False) / "config.toml"

    assert default_file({}) == usual()
    for home_of_nobody in ("", "relative"):
        monkeypatch.setenv("HOME", home_of_nobody)
        assert default_file({"XDG_CONFIG_HOME": home_of_nobody}) == usual()
    monkeypatch.setenv("XDG_CONFIG_HOME", "/elsewhere")
    assert default_file({"XDG_CONFIG_HOME": "/elsewhere"}) == usual()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    default_file({"XDG_CONFIG_HOME": str(home)}).parent.mkdir()
    usual().write_text("log_level = 'error'")
    assert load(Sources({"XDG_CONFIG_HOME": str(home)}))[0].log_level == "error"


def test_who_has_no_home_has_no_usual_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 3)
    assert default_file({}) == Path("/.config/sessiond/config.toml")


def test_a_setting_is_a_field_of_the_configuration_and_has_words_for_its_values() -> None:
    sections = {
        "limits": config_module.Limits,
        "retention": config_module.Retention,
        "defaults": config_module.Defaults,
        "compaction": config_module.Compaction,
        "summarizer": config_module.Summarizer,
        "export": config_module.Export,
        "secrets": config_module.Secrets,
        "search": config_module.Searches,
    }
    keys = {name for name in structs.asdict(Configuration()) if name not in {*sections, "roots"}}
    keys |= {f"roots.{kind}" for kind in ROOT_KINDS}
    for name, section in sections.items():
        keys |= {f"{name}.{field}" for field in section.__struct_fields__}
    assert keys == set(config_module._ALLOWED)
