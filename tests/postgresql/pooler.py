"""PgBouncer in front of a cluster, for tests."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from tests.kit.patience import soon
from tests.postgresql.cluster import AS_USER, Cluster, own

__all__ = ["PROGRAM", "pooler"]

PROGRAM: Final = "pgbouncer"
_PORT: Final = 6432
_SETTINGS: Final = """\
[databases]
postgres = host={host} user=tests
[pgbouncer]
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
pool_mode = {mode}
"""


@contextmanager
def pooler(
    cluster: Cluster, mode: Literal["session", "transaction"], more: str = ""
) -> Generator[str]:
    """Run a pooler, with more settings; yield the connection string of a database behind the pooler."""
    folder = Path(tempfile.mkdtemp(prefix="sd-pooler-"))
    settings = folder / "settings"
    usual = _SETTINGS.format(host=cluster.folder, port=_PORT, folder=folder, mode=mode)
    settings.write_text(f"{usual}{more}\n")
    own(folder)
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [PROGRAM, "-q", str(settings)], stdout=log, stderr=log, cwd=folder, **AS_USER
        )

    def listens() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        return (folder / f".s.PGSQL.{_PORT}").exists()

    try:
        soon(listens)
        yield f"postgresql:///postgres?host={folder}&port={_PORT}&user=tests"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        shutil.rmtree(folder)
