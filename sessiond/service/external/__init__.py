"""Foreign writers of an open session's file: their lines, and the notices of their changes.

foreign_lines.py   lines that foreign writers append
change_monitor.py  when to look at a file
watcher.py         notices of changes, by looking
inotify.py         notices of changes, by Linux
folder_notices.py  notices of changes in folders
inotify_events.py  the events as Linux spells them
"""
