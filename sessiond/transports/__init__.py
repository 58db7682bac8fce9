"""Transports of a connection: a Unix socket, or this process's own stdin and stdout."""
