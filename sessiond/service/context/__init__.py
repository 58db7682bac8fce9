"""Contexts and token figures of open sessions, kept in caches.

context_cache.py  contexts, spliced from stored bytes
context_lines.py  stored lines, as a dialect takes them for a context
view_cache.py     contexts as a provider takes them
token_counts.py   estimated tokens at an entry
growth.py         upper bounds of a change
recently_used.py  what both caches are: recently used values, bounded
cache_budget.py   bytes of all caches
"""
