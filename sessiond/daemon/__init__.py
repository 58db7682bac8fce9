"""Daemon from inside: its process, its environment and configuration, its end."""
