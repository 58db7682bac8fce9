"""How the log of a session in a database follows the session's row.

positions.py   where open sessions are now: one query for many reads
catching_up.py lines of other daemons, taken in up to the row; many lines piece by piece
"""
