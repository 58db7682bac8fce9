"""The way of a whole profile from files into a database, and back. Blocking.

Law: what is moved leaves its place only once the other place has all of it, durably, which is found by
reading it there. So a move that was interrupted is finished by the next one, and what is there already
with other content is never replaced. Where another daemon has deleted a session behind an interrupted
move, the next move brings the other copy to the trash: a deleted session stays deleted.

    way.py          what all ways have in common
    sessions_in.py  sessions from files into a database
    sessions_out.py sessions from a database into files
    notes.py        notes of sessions on their way into files
    joining.py      documents of two places, made one
    documents.py    states and secrets, both ways
"""
