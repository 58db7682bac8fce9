"""`python -m sessiond` is the command `sessiond`."""

from __future__ import annotations

from sessiond.cli import main

if __name__ == "__main__":
    main(prog_name="sessiond")
