"""Fan-out: subscribers of a session, their cursors and replays, and presence.

hub.py             every entry to every subscriber, once
subscription.py    a cursor and its filter
frames.py          one frame for equal subscribers
replay.py          the log behind a cursor
signals.py         signals and presence, to the subscribers that want them
presence.py        connections that reported a state
company.py         the port of connections at other daemons
messenger.py       signals and presence, here and at other daemons
session_status.py  archived, read-only
"""
