"""Terminal application: sessions, their tree and their entries, to look at and to change.

Law: this package is a client; the protocol is all that it knows of the daemon. Lists and trees
are read in pages, and what another client changes comes as an event. Nothing polls.

    app.py            the application, and the way from view to view
    link.py           the one client, and whether its daemon is there
    tasks.py          tasks of the application and of its screens
    view.py           a screen with its bars; from a key to the daemon
    bars.py           title, message and keys
    rows.py           a list of any length with a cursor
    sessions.py       the list and the forest of sessions
    session_lines.py  lines of sessions
    tree.py           the tree of a session
    following.py      a followed session: pages, then events
    window.py         the entries that are loaded, as a tree
    entry.py          one entry: text or JSON
    search.py         the search
    picker.py         the entries of a rebase
    actions.py        branch, fork, merge, label, export
    dialogs.py        a text to type, a session to choose
    words.py          texts that a screen may show
    advice.py         errors, with what to do next
    help.py           the page of help
"""
