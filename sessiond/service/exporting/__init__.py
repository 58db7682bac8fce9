"""Exports: a session as the lines of a file, in its own dialect or in another one.

export.py      a session in the dialect that the caller names
native.py      another dialect's entries as native lines
nova.py        a state of Nova
construct.py   a session of Construct
converting.py  entries as another program's lines
copy.py        the copy that grows
compactions.py compactions in another program's form
messages.py    messages in another program's shape
forms.py       weaker forms of an entry that a dialect does not take
visibility.py  entries that one program shows to a model and another one does not
losses.py      what an export could not carry
documents/     a session to be read: JSON, Markdown, HTML
"""
