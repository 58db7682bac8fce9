"""Open sessions of a daemon, and the turns of requests that need a session's file."""
