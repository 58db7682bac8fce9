"""Summaries that clients or a command write for the daemon: of a compaction, a merge, a squash, a left branch.

summarizers.py  clients or a command that write summaries
runs.py         work of the daemon that waits for a summary, and its callers
"""
