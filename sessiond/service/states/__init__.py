"""State store of a profile as connections use it: calls in their order, one writer per namespace.

states.py   the whole: reads from memory, calls in line, values whose time is over
writer.py   the line of one namespace; calls that wait share one write
secrets.py  the secrets: opened for an answer alone, rotated
feed.py     the connections that are told of changes
"""
