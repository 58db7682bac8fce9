"""Text of an open document, and what is read from its lines.

Law: pure but for `indexing` and `disposal`, which know threads. An edit costs what its own lines
cost, however long the text is.

    text.py      lines, edits, and positions as editors count
    runs.py      long sequences that are edited in the middle
    lines.py     ids and roles of lines
    indexing.py  the index of an open document
    disposal.py  large objects, freed by a thread
"""
