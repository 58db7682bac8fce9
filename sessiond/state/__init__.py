"""State store: named JSON documents of a profile, one file per namespace. No session knows of it.

document.py   the values of a namespace, and changes of them; pure
codec.py      a namespace as the bytes of its file, and back
folder.py     the files: read at a start, replaced as a whole, put aside if damaged
plain.py      JSON files of other programs as values, and back
documents.py  all namespaces: durable in memory, and their writes
"""
