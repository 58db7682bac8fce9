"""Working state of a session: what an agent must remember between its turns.

entries.py  the entries that change the state
state.py    the state that they make
"""
