"""Modules, patterns and decoders that a daemon has when it gives its first answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

pytestmark = pytest.mark.platform

# A daemon on standard input and output that notes what sessiond's modules build as they load.
_DAEMON = """
import atexit, json, re, sys
import msgspec

patterns, decoders = set(), set()
compile, Decoder = re.compile, msgspec.json.Decoder


def caller():
    frame = sys._getframe(2)
    while frame.f_globals["__name__"] == "sessiond.typed":
        frame = frame.f_back
    return frame.f_globals["__name__"]


def noting_compile(pattern, flags=0):
    patterns.add(caller())
    return compile(pattern, flags)


class NotingDecoder:
    def __class_getitem__(cls, kind):
        return cls

    def __new__(cls, kind=None, **options):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            decoders.add(caller())
        return Decoder(kind, **options)


def print_notes():
    ours = [sorted(name for name in names if name.startswith("sessiond")) for names in (patterns, decoders)]
    print(json.dumps([*ours, sorted(sys.modules)]), file=sys.stderr)


re.compile, msgspec.json.Decoder = noting_compile, NotingDecoder
atexit.register(print_notes)
from sessiond.cli import main

main(["serve", "--stdio", "--log-level", "error"])
"""
_PING = b'{"jsonrpc":"2.0","id":1,"method":"server/ping"}\n'


class Started(Struct, array_like=True):
    """Notes of a daemon that has answered one ping."""

    patterns: list[str]
    decoders: list[str]
    modules: list[str]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Started:
    """Start a daemon on an empty home, let it answer a ping, and end it."""
    home: Path = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        [sys.executable, "-c", _DAEMON],
        env={"HOME": str(home), "SESSIOND_HOME": str(home)},
        input=_PING,
        capture_output=True,
        check=True,
    )
    assert b'"ok":true' in done.stdout
    return msgspec.json.decode(done.stderr.splitlines()[-1], type=Started)


@pytest.mark.parametrize(
    "absent",
    [
        *("rich", "structlog", "pygls", "platformdirs", "importlib.metadata", "tomllib", "difflib"),
        *("hashlib", "shlex", "click.shell_completion"),
        *("sessiond.schema", "sessiond.testing", "sessiond.lsp", "sessiond.cli.ui.failures"),
        *("sessiond.cli.connect.probe", "sessiond.cli.connect.autostart"),
        *("sessiond_client.errors", "sessiond_client.blocking", "sessiond_client.aio"),
    ],
)
def test_a_start_loads_no_module_that_it_does_not_use(started: Started, absent: str) -> None:
    assert "sessiond.daemon.daemon" in started.modules
    assert absent not in started.modules


def test_a_start_compiles_only_the_patterns_of_every_line_and_every_file(started: Started) -> None:
    """Others are compiled at their first use, by `re.fullmatch` and its like, which keep them."""
    assert started.patterns == [
        "sessiond.journal.profile.layout",
        "sessiond.journal.profile.names",
        "sessiond.model.escapes",
        "sessiond.model.times",
        "sessiond.session.providers.call_ids",
    ]


def test_a_start_builds_only_the_decoders_of_its_configuration_every_request_and_every_line(
    started: Started,
) -> None:
    """Others are built at their first use, by `typed.decode`, which keeps them."""
    assert started.decoders == [
        "sessiond.config.configuration",
        "sessiond.dialects.native.rows",
        "sessiond.dialects.pi.dialect",
        "sessiond.methods._shared.common",
        "sessiond.rpc.dispatch",
        "sessiond.rpc.messages",
    ]
