"""Turns: a path as requests and responses. Pure, and without the payloads' spelling.

boundaries.py  where the turns of a path begin
blocks.py      blocks of a message, as a front end shows them
turn.py        one turn of its entries
"""
