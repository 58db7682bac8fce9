"""Helpers that several methods share.

common.py         the session's actor, entries from clients, spliced answers
access.py         who may call what, now
head_params.py    the head to move, and the condition
place.py          an entry or a head
rows.py           entries as rows
nodes.py          tree nodes
context_since.py  only what is new to the caller
state_changes.py  the parameters and answers of changes of the working state
forks.py          how many forks a session has
with_hooks.py     clients asked before a call takes effect
copies.py         sessions made of another
switching.py      clients asked before a connection goes to another session
secret_params.py  parameters of secrets
values.py         values of the state store
vacant.py         sessions without a file
existing.py       sessions that are here already, where a source is to be imported
"""
