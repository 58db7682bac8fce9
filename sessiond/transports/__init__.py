"""Transports of a connection: a Unix socket, or this process's own stdin and stdout.

unix.py            the accept loop
stdio.py           stdin and stdout as one connection
listening.py       the listening socket
admission.py       who may connect
serving.py         one connection, first byte to last
connection.py      read, dispatch, send
receiving.py       bytes cut into bodies
response_queue.py  unread answers, and requests under way
outbox.py          what waits for the socket
base.py            the byte pipe
"""
