"""Daemon from outside: which one is named, whether it runs; joined, started, stopped, asked."""
