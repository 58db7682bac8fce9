"""Changes of a session's working state.

changes.py  decisions, artifacts, tasks and prunes, as entries of one append
"""
