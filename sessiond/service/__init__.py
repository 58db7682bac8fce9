"""Live sessions: one writer each, any number of readers and subscribers.

scopes.py          sessions found by their purpose
client.py          one connected client
retention.py       old sessions into the trash
shutdown.py        the end, in order
service.py         the sessions and clients of a daemon
registry/          which sessions are open
compaction/        compactions: planned, summarised, committed
copying/           a session made of another
exporting/         a session as the file of another program
queues.py          prompts that wait for a session's agent
hooks.py           clients asked before a call takes effect
listing/           all sessions at once
states/            the state store, as connections use it
summaries/         summaries that clients or a command write
actor/             one open session
context/           contexts and token figures, cached
external/          foreign writers
pubsub/            events to subscribers
client_request.py  a request to a client, with a time limit
database/          the store that keeps sessions in a database, for worker threads
files/             the store that keeps sessions as files, for worker threads
store/             the port of the store: all that the rest knows of it
sources/           files and texts of other programs as lines
environment.py     clock, ids, settings, reporters
progress.py        `$/progress`
policies.py        compaction policies in force
log/               an opened session's lines; actors and files share it
byte_budget.py     bytes kept for all connections
thread_pool.py     threads that wait for disks and databases
ports.py           protocols of what is outside
"""
