"""Compactions: planned, summarised by a client or a command, and committed."""
