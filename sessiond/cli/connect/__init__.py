"""Daemon from outside: which one is named, whether it runs; joined, started, stopped, asked.

target.py        the daemon that flags, environment or configuration name
probe.py         whether a daemon listens, and one question
autostart.py     join the running daemon, or start one
conversation.py  what a command asks, and its answers
one_call.py      one request, for `sessiond call`
bridge.py        stdin and stdout as a connection
stopping.py      stop a daemon
versions.py      what a command says of a daemon of another version
daemon_info.py   daemons as `start`, `status` and `profiles` show them
"""
