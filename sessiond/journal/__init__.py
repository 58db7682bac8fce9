"""Durable lines: one append-only file per session, and where the files lie.

Law: nothing here knows JSON, entries or sessions; a line is bytes without a
newline. Everything blocks and is called in worker threads; nothing here waits
for anything but the disk.

    files.py       the only calls into the operating system
    recovery.py    bytes to lines, pure
    layout.py      the folders and names of a profile
    lock.py        who owns a file, and who to blame when it is somebody else
    scanning.py    a file's lines from its beginning
    reader.py      stored lines by ordinal, from any thread
    descriptor.py  writes and syncs at the end of a file
    writer.py      append or refuse; file and offsets never disagree
    repair.py      back to the last committed line after the disk refused
    making.py      a new file that is there as a whole or not at all
    journal.py     one open file, of all these
    memory.py      the same without a disk
    store.py       what the two have in common
"""
