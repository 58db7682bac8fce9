"""The operator dialect: files that Operator writes and can still read afterwards.

dialect.py   the dialect
header.py    its first line
names.py     its names in native ones
compose.py   messages that say what other dialects say
migrate.py   its older generations
context.py   its messages in a context
checks.py    what may be written
"""
