"""State store: named JSON documents of a profile, one file per namespace. No session knows of it.

document.py   the values of a namespace, and changes of them; pure
codec.py      a namespace as the bytes of its file, and back
folder.py     the files: read at a start, replaced as a whole, put aside if damaged
plain.py      JSON files of other programs as values, and back
documents.py  all namespaces: durable in memory, and their writes
keys.py       the keys of the secrets, and where they come from
key_file.py   the file that has them
vault.py      secrets encrypted, bound to their place
secret_store.py  encrypted documents and their keys
"""
