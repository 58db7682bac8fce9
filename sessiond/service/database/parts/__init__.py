"""The parts of the store: each goes together with the part of the store of files that has its methods.

making.py  sessions that are made, or come out of memory or to their place
listing.py lists, searches, and the session that has an entry
checks.py  checks and repairs
trash.py   deleted sessions, until they are purged
"""
