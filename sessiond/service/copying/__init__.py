"""Copies: sessions made of another session; what they take, its layout, and their header.

source.py     a session as of one line
copying.py    chosen entries, chained anew
header.py     the first lines of a copy
labels.py     references to labels that stay behind
forking.py    fork
rebasing.py   rebase
squashing.py  the summary of a squash
merging.py    merge
"""
