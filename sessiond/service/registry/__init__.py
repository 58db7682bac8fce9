"""Open sessions of a daemon, and the turns of requests that need a session's file.

registry.py  which sessions are open, and whose turn a file is
eviction.py  which idle sessions give way
creation_times.py  one time for each session of an id
closed_sessions.py  when the memory of closed sessions is freed
"""
