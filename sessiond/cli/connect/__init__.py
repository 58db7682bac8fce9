"""The daemon from outside: which is meant, whether it is there; joined, started, stopped, asked."""
