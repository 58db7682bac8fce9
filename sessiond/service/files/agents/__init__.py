"""Sessions of other agents, read whole from their files as the lines of native files.

found.py        the table of such formats, and the one that a content has
claude_code.py  sessions of Claude Code: a tree of lines
copied.py       a copy made of the entries of a reading
compressed.py   files that Codex has compressed
codex.py        rollouts of Codex: a list of items
gemini_cli.py   sessions of Gemini CLI: a log of operations on a list
neighbours.py   what the files beside a file say of its session
source.py       the lines of a file, and what of them has no place in a copy
writing.py      entries in their places, as native lines
"""
