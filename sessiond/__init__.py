"""sessiond: the one owner of agent sessions on a machine.

__main__.py  `python -m sessiond`
cli/         the command line
daemon/      the composition root: one process that serves
browse/      the terminal application, a client
lsp/         the language server, a client
mcp/         the server of the Model Context Protocol; a client of the daemon
testing/     public fakes and conformance suites
config/      the configuration of daemon and commands
schema/      the protocol for machines
methods/     one RPC method per file
transports/  connections over a Unix socket or stdio
postgresql/  sessions on PostgreSQL
service/     sessions that are open, and sessions as files
rpc/         JSON-RPC 2.0 without I/O
state/       named JSON documents of a profile
session/     the state of one session, pure
journal/     durable lines
dialects/    lines to entries and back
catalog/     the index over all session files
model/       pure data for every layer
build.py     what tells two installations of one version apart
installation.py  the command that adds an extra, of the program that installed sessiond
by_now.py    lists and searches that do not wait for what the daemon still reads
errors.py    every error with its code
limits.py    every bound with its owner
moments.py   times as people write them
scripts.py   tokens of a text by its script
typed.py     JSON as values of types
visible.py   texts that a screen may show
system/      system calls that differ between platforms
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.1"
