"""The folders, file names and locks of a profile, and the making of new files.

layout.py  the folders and paths of a profile
names.py   the forms of the file names that sessiond makes
lock.py    ownership of a file
holder.py  the record of a lock's owner and of the durable bytes
making.py  new files that exist as a whole or not at all
"""
