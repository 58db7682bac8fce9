"""Sessions that other programs keep as one JSON document each: read as the lines of native files.

found.py      the table of such formats, and the one that a content has
construct.py  sessions of Construct
nova.py       states of Nova
refusal.py    the error for a document that is not right
"""
