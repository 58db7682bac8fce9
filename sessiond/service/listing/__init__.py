"""Lists, searches, and the connections that watch the catalog: all sessions at once.

live_catalog.py    what lists show, kept current
folder_scanner.py  folders against the catalog
root_folders.py    looks at the folders of roots
root_list.py       the roots for people
root_rooms.py      room of the roots in the search index
file_index.py      files by session id
mtime_cache.py     whether a folder or file is unchanged
pages.py           pages of lists
running.py         programs of other agents that run now
searching.py       full-text search
changes.py         changes of one transaction
feed.py            changes to connections that watch
"""
