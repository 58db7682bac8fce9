"""Documents of a session: exports that are made to be read, by programs or by people.

document.py      a session in the form that the caller names
source.py        the session that is shown, redacted if patterns are given
redaction.py     patterns in a process that can be killed
redactor.py      that process's program
json_document.py the session as one JSON document
walk.py          the order in which people read entries: the active path, then the branches
shown.py         an entry as texts
parts.py         a message as texts
visible.py       text without characters that control a screen
pages.py         the contents of Markdown and HTML pages
markdown.py      the conversation as Markdown
html.py          the session as a page for a browser

The texts of the pages, their style and their script are files in `templates`.
"""
