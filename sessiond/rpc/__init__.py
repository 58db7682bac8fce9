"""JSON-RPC 2.0 without I/O and without sessions: bytes to requests, results to bytes.

framing.py   bytes to bodies
readers.py   the end of a message, per framing
messages.py  bodies to messages and back
dispatch.py  message to method, result to answer
params.py    the base of parameters
calls.py     requests on the way to their answers
outgoing.py  requests of the daemon to a client
progress.py  progress of one request
"""
