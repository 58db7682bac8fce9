"""Watching: when the problems of an open document are looked for, and shown.

watcher.py   a document's task: opens its session, and checks the file after each change
checking.py  a check of the file, and a refusal of the daemon, as the editor sees them
"""
