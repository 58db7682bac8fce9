"""The port of the store: all that the service knows of where sessions are kept.

`service/files` keeps sessions as files. `sessiond.testing.stores` is the port in executable form: every
store passes it.

    session_store.py  the port: the parts below together
    sessions.py       one session: made, opened, moved, closed
    lease_table.py    leases of a session that several daemons serve
    claims.py         work that one daemon does for all daemons of a store
    trash.py          deleted sessions, until they are purged
    checks.py         what is wrong with a stored session, and its repair
    listed.py         all sessions at once: rows, scans, texts for searches
    roots.py          folders of other programs on the daemon's machine
    refusals.py       errors that every store raises in the same words
"""
