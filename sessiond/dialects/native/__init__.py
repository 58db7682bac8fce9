"""The native dialect: files that sessiond writes.

dialect.py   the dialect
header.py    its first line
rows.py      its rows
effects.py   what its entries do to the session
compose.py   messages that say what other dialects say
context.py   its messages in a context
checks.py    what may be written
"""
