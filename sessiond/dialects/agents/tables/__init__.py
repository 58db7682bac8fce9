"""What a reading keeps of all lines so far, as columns of numbers instead of objects.

ids.py      numbers for ids
answers.py  the answers of a session of Claude Code: their places, and the usage they stated
"""
