"""The pi dialect: files that pi writes and can still read afterwards.

dialect.py   the dialect
header.py    its first line
names.py     its names in native ones
compose.py   messages that say what other dialects say
migrate.py   its versions 1 and 2
context.py   its messages in a context
checks.py    what may be written
"""
