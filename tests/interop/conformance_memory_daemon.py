"""sessiond with its sessions in a database in memory, which ends with the process.

conformance_memory_daemon.py serve --socket …
"""

from __future__ import annotations

import time
from typing import Any

from sessiond.cli import main
from sessiond.daemon import daemon
from sessiond.service.database.store import DatabaseStore
from sessiond.service.files.store import FileStore
from sessiond.service.store.session_store import SessionStore
from sessiond.testing.database import MemoryDatabase


def in_memory(files: FileStore, *_settings: Any) -> SessionStore:
    """Return the store in memory, in place of the configured one."""
    return DatabaseStore(MemoryDatabase(time.time_ns).connection(), files)


if __name__ == "__main__":
    vars(daemon)["store_of"] = in_memory
    main()
