"""sessiond that stages every append by itself, so that an attack can force this way.

    single_daemon.py serve --socket …

Without it, plain appends that follow each other in line are staged in runs.
"""

from __future__ import annotations

from sessiond.cli import main
from sessiond.service.actor import batch

if __name__ == "__main__":
    batch.RUNS = False
    main()
