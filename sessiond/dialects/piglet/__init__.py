"""The piglet dialect: files that piglet writes and can still read afterwards.

dialect.py   the dialect
header.py    its first line
spelling.py  its JSON, as Go writes JSON
meta.py      its lines with the facts of a session
names.py     its entries in native ones
usual.py     its usual message lines, as columns
writing.py   native entries in its own ones
checks.py    what may be written
messages.py  the shape of its messages
compose.py   messages that say what other dialects say
context.py   its messages in a context
legacy.py    its files without ids
placing.py   its entries in another file
"""
