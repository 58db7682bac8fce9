"""Statements about rows and lines of sessions, most of them prepared once for each connection.

appending.py  the way of an append
reading.py    lines of a session, piece by piece
sending.py    an append on its way to the server
holding.py    a row that waits for the append of one writer
making.py     sessions that come with their lines
ringing.py    rings, and who hears them
rows.py       columns of a session's row
prepared.py   statements that a connection knows, with binary values
"""
