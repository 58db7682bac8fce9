"""Lines of an open session and figures from them; actors and files share this package.

open_session.py  index, lines, dialect, metadata
line_indexer.py  stored lines into the index
indexer.py       the first line of a file and the lines behind into a new index
log_reader.py    lines without blocking the loop
annotations.py   what is known about an entry, added up
chunks.py        lines that are read at once
plan_lines.py    the lines of a plan, without the bytes of images where the lines are too large
turn_reader.py   turns from lines
out_of_sight.py  the error of a call while a shared store does not answer
rewritten.py     lines that are not as indexed
ending.py        whether the work of a session goes on
events.py        notifications as bytes
session_info.py  a session as lists show it
statistics.py    what the entries say of messages, tools, cost, files and compactions
state_info.py    its working state as answers show it
"""
