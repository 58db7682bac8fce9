"""A client process that offers to summarise: summary_writer.py SOCKET NAME MANNER.

It says "ready" when it has offered, "asked" when it is asked, and then "answers", "raises" or
"hangs". What it writes is its own name.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

from sessiond_client import connect_blocking

if __name__ == "__main__":
    socket, name, manner = sys.argv[1:]
    with (
        connect_blocking(socket, client_id=name, timeout=60, connect_timeout=30) as client,
        client.offer(summarize=True) as offer,
    ):
        print("ready", flush=True)  # noqa: T201 - what its starter waits for
        for asked in offer:
            print("asked", flush=True)  # noqa: T201
            with suppress(RuntimeError), asked:
                if manner == "hangs":
                    signal.pause()
                if manner == "raises":
                    raise RuntimeError
                asked.answer(name)
