"""Language server: outline, hover and problems of session files, over stdio.

Law: the daemon tells what an entry is, the editor's text tells its place. This package reads no
sessions and does not know the service; it asks through `sessiond_client`. Only `server`,
`protocol`, `answers`, `window`, `shapes` and the features know the types of the language server
protocol. No step of the event loop grows with a document: threads do long work, and free what is
large.

    server.py    pygls between an editor and `Editor`
    protocol.py  pygls' protocol, with an error for each broken request
    editor.py    answers to an editor's questions
    link.py      the connection to the daemon
    document.py  an open document
    watching/    when problems are shown
    outline.py   the outline, by turns
    hovering.py  the text of a hover
    findings.py  problems at their places in the text
    text/        the text of a document, and the index of its lines
    incoming.py  long texts, decoded before pygls parses a message
    answers.py   answers, encoded before pygls sends a message
    outgoing.py  what the editor has not read yet
    places.py    lines of entries, in files with ids and without
    features/    further kinds of questions, a module for each
    window.py    what the server asks and tells the editor unasked
    progress.py  long work, shown and cancelled
    shapes.py    the spelling of the language server protocol
"""
