"""Language server: outline, hover and problems of session files, over stdio.

Law: the daemon tells what an entry is, the editor's text tells its place. This package reads no
sessions and does not know the service; it asks through `sessiond_client`. Only `server` and
`shapes` know pygls.

    server.py    pygls between an editor and `Editor`
    editor.py    answers to an editor's questions
    link.py      the connection to the daemon
    document.py  an open document
    watching.py  when problems are shown
    outline.py   the outline, by turns
    hovering.py  the text of a hover
    findings.py  problems at their places in the text
    lines.py     ids and roles of lines
    text.py      positions as editors count
    shapes.py    the spelling of the language server protocol
"""
