"""sessiond, with a count of the Python and C calls of each of its threads.

    counted_daemon.py FILE serve --socket …

Each `server/ping` ends one period. When the program ends, FILE gets the periods as JSON: a list
of objects, each of which has the calls of one period by thread (`loop` or `others`), by
language ("python" or "c") and by function. A resumed generator or coroutine counts as a call.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from sessiond import limits
from sessiond.cli import main
from sessiond.methods.server import ping

CLOCKS: Final = {
    "CATALOG_FLUSH_SECONDS",
    "COMPACTION_LOOK_SECONDS",
    "FIRST_SCAN_SECONDS",
    "WATCH_SECONDS",
}
"""Limits that say when the daemon looks at what changed."""

Calls = dict[str, dict[str, Counter[str]]]


def count_calls(periods: list[Calls]) -> None:
    """Count from here on; the first call and each ping begin a period of `periods`."""
    mark = ping.METHOD.handle.__code__
    loop = threading.get_ident()
    names: dict[CodeType, str] = {}

    def hook(frame: FrameType, event: str, called: Any) -> None:
        if event == "call":
            code = frame.f_code
            name = names.get(code)
            if name is None:
                path = Path(code.co_filename)
                name = names[code] = f"{path.parent.name}/{path.name}:{code.co_qualname}"
            kind = "python"
        elif event == "c_call":
            code, name, kind = None, str(getattr(called, "__qualname__", called)), "c"
        else:
            return
        if code is mark or not periods:
            begun: Calls = {
                name: {"python": Counter(), "c": Counter()} for name in ("loop", "others")
            }
            periods.append(begun)
        thread = "loop" if threading.get_ident() == loop else "others"
        periods[-1][thread][kind][name] += 1

    threading.setprofile(hook)
    sys.setprofile(hook)


if __name__ == "__main__":
    target = Path(sys.argv.pop(1))
    # Nothing starts by the clock: the busier the machine, the more calls that adds.
    assert vars(limits).keys() >= CLOCKS, "a limit has another name"
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("sessiond."):
            for clock in CLOCKS & vars(module).keys():
                setattr(module, clock, 3600.0)
    counted: list[Calls] = []
    count_calls(counted)
    try:
        main()
    finally:
        sys.setprofile(None)
        target.write_text(json.dumps(counted), "utf-8")
