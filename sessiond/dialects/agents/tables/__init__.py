"""Columns of numbers for what a reading keeps of all lines, instead of objects.

ids.py      numbers for ids
answers.py  the answers of a session of Claude Code: their places, and the usage they stated
"""
