"""Actor of one open session: its inbox, its writer, its leases, and its end.

actor.py              what a session is asked
loop.py               what it does next, and its end
live.py               its parts while one file is open
opening.py            the file is read, or made
inbox.py              commands in order, bounded
plain_append.py       the usual command: one message under no condition
batch.py              commands staged and settled together
settling.py           answers to a batch
writer.py             the six steps of a batch
flight.py             batches stored while the actor's task rests
lease.py              one lease
leases.py             leases on heads, and clients in line
shared_leases.py      those of a session that other daemons serve too
lease_changes.py      changes of the leases in a store
exclusive.py          an operation that needs the file for itself
background.py         answers that take a task
internal_commands.py  mutations by the daemon itself
plan_files.py         files of the latest plans
"""
