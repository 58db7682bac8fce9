"""Positions of logs in a database, and the way of a log to the position of its row.

positions.py   where open sessions are now: one query for many reads
catching_up.py lines of other daemons, taken in up to the row; many lines piece by piece
looking.py     looks at the row: what is news, and what is another session's
"""
