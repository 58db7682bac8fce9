"""Types that two threads use for the first time at the same moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kit.patience import PATIENCE_SECONDS

# The members of `Inner` are read while those of `Outer` are known in part: just then another thread comes.
_PROGRAM = """\
import sys
import threading
from msgspec import Raw, Struct
import {module} as asked

begun, come = threading.Event(), threading.Event()

def held():
    begun.set()
    assert come.wait({patience})
    threading.Event().wait(0.3)
    return int

class Inner(Struct):
    number: "held()"

class Outer(Struct):
    inner: Inner
    word: str

def use():
    return {use}

def later():
    assert begun.wait({patience})
    come.set()
    use()

second = threading.Thread(target=later)
second.start()
found = use()
second.join()
print("both")
"""
_DATA = 'b\'{"inner":{"number":1},"word":"a"}\''
_PACKED = r"b'\x82\xa5inner\x81\xa6number\x01\xa4word\xa1a'"
_VALUE = "{'inner': {'number': 1}, 'word': 'a'}"


@pytest.mark.parametrize(
    ("module", "use"),
    [
        ("sessiond.typed", f"asked.decode({_DATA}, Outer)"),
        ("sessiond.typed", f"asked.decoder(Outer).decode({_DATA})"),
        ("sessiond.typed", f"asked.convert({_VALUE}, Outer)"),
        ("sessiond.typed", f"asked.unpacker(Outer).decode({_PACKED})"),
        ("sessiond_client.wire", f"asked.read(Outer, Raw({_DATA}))"),
        ("sessiond_client.wire", f"asked.convert(Outer, {_VALUE})"),
    ],
    ids=["decode", "decoder", "convert", "unpacker", "client-read", "client-convert"],
)
def test_two_threads_may_use_a_type_for_the_first_time_at_once(module: str, use: str) -> None:
    program = _PROGRAM.format(module=module, use=use, patience=PATIENCE_SECONDS)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "both\n"), ended.stderr[-2000:]
