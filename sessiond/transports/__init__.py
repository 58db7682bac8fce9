"""Ways to be connected: a Unix socket, or this process's own stdin and stdout."""
