"""The store that keeps sessions in a database: lines by their numbers, one row for each session.

`SessionDatabase` is the port of a database, and each kind of database is one class that has its methods.
`sessiond.testing.database` has one in memory, which shows with every transcript of the protocol that a daemon
works on sessions that are no files. The state store and the secrets are in the database, too. What belongs to the daemon's machine (roots, files that clients open by
their paths, sessions in memory) stays with the store of files that this store goes together with. Blocking,
for worker threads.

    database.py  the port of a database: rows and lines, no meaning
    log.py       the lines of one session, copied into a file without a name
    appending.py how a log appends, and takes turns with other writers
    following/   how a log follows the row of its session
    leases.py    leases in the row of a session
    company/     signals and presence of several daemons
    company_rows.py the port of their tables
    claims.py    work that one daemon does for all daemons
    silence.py   daemons that have ended without a word
    opening.py   a session from its row and its lines
    store.py     the port of the store
    parts/       parts of the store: making, lists, checks, trash
    refusals.py  refusals of unknown ids, and of work that a database does not do
    promotion.py new rows, and sessions out of memory, or from a draft to their place
    moving/      a whole profile between files and a database
    documents.py the state store and the secrets, each namespace a row
    doorbell.py  rings that tell other daemons of changes
    watching.py  notices of other writers
    open_notes.py the sessions that a daemon has open, for the clean-ups of all daemons
    scanning/    the rows of sessions against the catalog
    checking.py  what is wrong with stored lines, and what a repair leaves
"""
