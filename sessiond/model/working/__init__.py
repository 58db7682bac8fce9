"""Working state of a session: what an agent must remember between its turns.

annotations.py  entries about another entry, and about where messages come from
entries.py  the entries that change the state
state.py    the state that they make
"""
