"""The catalog: an index over the session files. The index may be deleted at any time.

catalog.py     the transactions of catalog.sqlite
guarded.py     a SQLite file that may be lost: its opening, and any trouble with it
home.py        the rows of a home that was copied or moved
schema.py      the tables, and the migration from older versions
rows.py        the values of one row
statements.py  the statements about one session
query.py       the statements of lists, and their cursors
finding.py     statements that find sessions by a ref or by their parents
forest.py      sessions as trees by descent
fulltext.py    the full-text index, search.sqlite
matching.py    a user's search query as a query of the full-text index
pieces.py      text as the index takes it
snippets.py    the text around a search hit
"""
