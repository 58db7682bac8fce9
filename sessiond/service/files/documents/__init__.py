"""Sessions that other programs keep as one JSON document each: read as the lines of native files.

nova.py  states of Nova
"""
