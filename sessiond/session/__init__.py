"""Pure state of one session: the meaning of its lines, and the rules for the next one.

index.py           what the entries mean, without payloads; `fold`
columns.py         chains of messages as columns; the index as plain values, to be kept
draft.py           a batch on top of a session, before it is stored
append.py          the checks of an append
append_request.py  what an append asks for
retries.py         appends that were stored before
preconditions.py   what a caller expects of a head
receipts.py        what an append answers
moves.py           branch, reset, rewind, label
navigate.py        where a person goes in the tree
metadata.py        title and other facts about the whole
atoms.py           lines that are one append
leases.py          the port that staging asks for leases
later.py           the shift of seqs behind foreign lines
refs.py            short references to entries
settings.py        model and thinking level in force
tree.py            children and paths
tree_layout.py     where rows stand in a drawing
tree_part.py       a part of a drawing
context/           what the model sees
compaction/        how that is made smaller
turns/             what a chat shows of it
working/           what an agent must remember
providers/         how a provider takes it
"""
