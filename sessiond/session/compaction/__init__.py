"""Compaction: the cut of a context, the material of the summary, and the entry that replaces it.

policy.py         when a context is too large
cut_point.py      where it is cut
touched_files.py  files named by tool calls
file_lists.py     those files as a model reads them
transcript.py     messages as text for a model
prompts.py        prompts for a summary
plan_id.py        the id of a plan
compaction.py     the entry that is committed
branching.py      what a head leaves behind
"""
