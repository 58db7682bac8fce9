"""Sessions of opencode: rows of a store, which is a database or a tree of files.

paths.py     looks at paths: a database as a folder with its sessions
places.py    the path of a session: its store and its id
source.py    the lines of a session where it lies, as they come
store.py     the store at a path, and the choice of a session
database.py  a store that is a database
tables.py    the tables of such a database
tree.py      a store that is a tree of files
rows.py      a session as its store names it
copies.py    what of a session has no place in a copy
"""
