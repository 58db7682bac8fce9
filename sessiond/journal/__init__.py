"""Durable lines: one append-only file per session, and where the files lie.

Law: no module here knows JSON, entries or sessions; a line is bytes without a
newline. Every function may block, so callers use worker threads. The disk is the
only thing that a function here waits for.

    files.py       the only calls into the operating system
    regular.py     descriptors of regular files only
    lookup.py      checks of a name that follow no link
    failures.py    operating-system errors as errors for a client
    recovery.py    bytes to lines, pure
    names.py       the forms of the file names that sessiond makes
    layout.py      the folders and paths of a profile
    lock.py        ownership of a file
    holder.py      the record of a lock's owner and of the durable bytes
    scanning.py    a file's lines from its beginning
    reader.py      stored lines by ordinal, from any thread
    checksums.py   CRC-32 of the known bytes
    descriptor.py  writes and syncs at the end of a file
    writer.py      append or refuse; file and offsets never disagree
    glued.py       foreign bytes that landed beside or inside a write
    following.py   a file that took the place of the open one
    refused.py     the bytes that a failed batch may have left in the file
    repair.py      back to the last committed line after a failed write or sync
    doubt.py       bytes that an earlier owner may not have made durable
    making.py      new files that exist as a whole or not at all
    carrying.py    a file moved to another device
    trash.py       the trash of a profile
    restoring.py   deleted sessions brought back from the trash
    journal.py     one open session file, built from the modules above
    memory.py      a session log without a file
    store.py       the port that both kinds of session log implement
"""
