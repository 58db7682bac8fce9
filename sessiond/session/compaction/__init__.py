"""Compaction: the cut of a context, the material of the summary, and the entry that replaces it."""
