"""Signals and presence between the daemons that have a session of one database open.

companies.py the company of each open session
outgoing.py  signals and presence of this daemon, on their way to the database
incoming.py  signals and presence of other daemons, as looks find them
courier.py   the thread that writes, so that the event loop never waits
"""
