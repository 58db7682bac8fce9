"""Entries, ids and events as pure data: what every layer above may know."""
