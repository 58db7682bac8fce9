"""Lines from elsewhere: files and texts of other programs as lines of a session. Blocking.

agents/       sessions of other agents, as native lines
documents/    sessions that are one JSON document in another program
importing.py  a file or a text as the lines of a copy
dry_run.py    a session that some lines would make
"""
