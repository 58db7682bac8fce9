"""Session files as whole files: made, found, opened, moved, checked.

Blocking, for worker threads.
"""
