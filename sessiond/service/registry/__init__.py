"""Which sessions of a daemon are open, and whose turn a session's file is."""
