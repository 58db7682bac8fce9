"""Checks of one file: what is wrong with it, and what a repair leaves.

verifying.py  what is wrong with a file
lint.py       what is odd about lines that parse
mending.py    what a repair does for entries on bad lines and without a parent
repairing.py  a file without its bad lines
"""
