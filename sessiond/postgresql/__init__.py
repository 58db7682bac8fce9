"""Sessions on PostgreSQL: the port `SessionDatabase` in statements. Needs `sessiond[postgresql]`.

database.py   start, end and rings
sessions.py   rows of sessions
lines.py      lines, appended and read
trash.py      deleted sessions
statements/   what is said to the server about rows and lines
documents.py  values of the state store, and secrets
daemons.py    numbers, claims, beats and the clock that daemons agree on
asking.py     calls: their connections, and the share of the connections that a kind of call has
at_hand.py    a connection that stays with appends from call to call
connecting.py connections: their settings, and their errors as the errors of a store
starting.py   the first connection, and what its failure says
company.py    signals and senders
patience.py   connections that do not wait for ever
pooling.py    poolers that share out the server's processes by transactions
bell.py       the connection that hears the rings of other daemons
examining.py  `doctor` on a database
schema.py     the tables, made by the first daemon that connects
tables.py     needs of a daemon in a schema: tables, and rights on them
"""
