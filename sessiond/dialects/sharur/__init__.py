"""The sharur dialect.

dialect.py  the dialect
header.py   the first line of a file
names.py    entries as lines, and lines as native lines
values.py   how Go spells times and texts
checks.py   what may be written
context.py  the messages of a context
compose.py  messages of sharur's shape that say what messages of other dialects say
migrate.py  exports without ids, and files from before the tree
"""
