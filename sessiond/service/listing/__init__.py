"""Lists, searches, and the connections that watch the catalog: all sessions at once.

live_catalog.py    what lists show, kept current
questions.py       questions to the catalog, answered once it is current
looks.py           looks at open sessions that another daemon has changed
root_rooms.py      room of the roots in the search index
pages.py           pages of lists
whole_figures.py   figures of files of which a list has read a part
searching.py       full-text search
indexing.py        reading of sessions for the search index
changes.py         changes of one transaction
feed.py            changes to connections that watch
"""
