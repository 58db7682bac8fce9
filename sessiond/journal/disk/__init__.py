"""The system calls on files, and descriptors of regular files.

files.py       the only calls into the operating system
regular.py     descriptors of regular files only
descriptor.py  writes and syncs at the end of a file
lookup.py      checks of a name that follow no link
sidecar.py     the lock that other writers of a file take
settled.py     whether a later change would show in a time
failures.py    operating-system errors as errors for a client
"""
