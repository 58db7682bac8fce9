"""Durable lines: one append-only file per session, and where the files lie.

Law: no module here knows JSON, entries or sessions; a line is bytes without a
newline. Every function may block, so callers use worker threads. The disk is the
only thing that a function here waits for.

    disk/            system calls on files and descriptors
    profile/         folders, file names, locks, and new files of a profile
    trash/           deleted files, and the way back
    splitter.py      bytes to lines, pure
    scanning.py      a file's lines from its beginning
    reader.py        stored lines by ordinal, from any thread
    checksums.py     CRC-32 of the known bytes
    writer.py        append or refuse; file and offsets never disagree
    interleaved.py   foreign bytes that landed beside or inside a write
    replacement.py   a file that took the place of the open one
    failed_batch.py  the bytes that a failed batch may have left in the file
    repair.py        back to the last committed line after a failed write or sync
    doubt.py         bytes that an earlier owner may not have made durable
    journal.py       one open session file, built from the modules above
    memory.py        a session log without a file
    source.py        lines of a file that is only read, as they come
    undisturbed.py   the answers about foreign writers of a log that has none
    spool.py         lines in a file that one log reads, as a rule without a name
    kept_copies.py   such files that stay for the next opening
    mirror.py        a session log of such lines, kept in a spool
    spooled.py       a session log of lines in the making
    store.py         the port that both kinds of session log implement
"""
