"""The store that keeps each session as one file: made, found, opened, moved, checked.

Blocking, for worker threads.

    store.py            the port, put together of the parts below
    profile.py          the parts of one profile
    guarded_files.py    looks outside the profile that end
    making.py           new files, copies, drafts
    opening.py          open, identify, settle
    in_place.py         files of other agents, which are only read
    locations.py        sessions, archive, trash, elsewhere
    trashed.py          deleted files for people; purged and forgotten files
    assembly.py         a session from its lines and its record
    catalog_records.py  what is remembered of a file
    kept_index.py       indexes of large sessions that are closed
    headers.py          whether a first line makes a session
    rows.py             rows of files that are not open
    line_texts.py       the texts of lines, for searches
    promotion.py        from memory or a draft towards the disk
    crash_recovery.py   the end of a file after a crash
    startup_cleanup.py  what earlier daemons left behind
    checks.py           verification of a profile's files
    root_list.py        the roots for people
    checking/           checks and repairs of one file
    roots/              folders of other programs
    scanning/           the folders against the catalog
"""
