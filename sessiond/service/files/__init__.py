"""Session files as whole files: made, found, opened, moved, checked.

Blocking, for worker threads.

    agents/             sessions of other agents, as native lines
    documents/          sessions that are one JSON document in another program
    store.py            create, find, open
    locations.py        sessions, archive, trash, elsewhere
    assembly.py         a session from its lines and its record
    catalog_records.py  what is remembered of a file
    indexer.py          lines to an index
    kept_index.py       indexes of large sessions that are closed
    headers.py          whether a first line makes a session
    root_places.py      places of new files in roots
    roots.py            folders of other programs
    rows.py             rows of files that are not open
    promotion.py        from memory or a draft towards the disk
    crash_recovery.py   the end of a file after a crash
    startup_cleanup.py  what earlier daemons left behind
    verifying.py        what is wrong with a file
    lint.py             what is odd about lines that parse
    repairing.py        a file without its bad lines
    checks.py           verification of a profile's files
    importing.py        import
    dry_run.py          an import that keeps nothing
"""
