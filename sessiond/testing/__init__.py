"""Public fakes and conformance suites, for sessiond's tests and for other projects.

daemon.py       a daemon in memory
wire.py         the client end of a connection
transcripts.py  transcripts, played against a daemon
elision.py      `…` in expected answers
disk.py         a disk with failures and power cuts
platter.py      what survives a power cut
faults.py       planned failures and counts of calls
database.py     a database of sessions in memory
company.py      signals and senders of that database
journals.py     the conformance suite of `SessionLog`
stores.py       the conformance suite of `SessionStore`
dialects.py     the conformance suite of `Dialect`
"""
