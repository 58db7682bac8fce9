"""Compactions: planned, summarised, and committed.

plan.py            a complete plan, with its prompt
division.py        what is summarised and what is kept
runner.py          compactions that the daemon carries out
run.py             one of them
rendering.py       messages, for files that hold no summaries
recommender.py     when a compaction is recommended, or begins
result.py          what the caller is told
figures.py         the tokens that a compaction frees, before it is stored
branch_summary.py  what a head leaves behind
"""
