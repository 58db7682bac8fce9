"""The daemon from inside: its process, what it runs with, and how it ends."""
