"""Sessions of other agents: the lines of their files, and copies as native lines.

sources.py      lines of files that are more than one growing file
found.py        the agent whose session a content is
claude_code.py  sessions of Claude Code: a tree of lines
copied.py       a copy made of the entries of a reading
joining.py      native lines of an open session
inlining.py     outputs that a copy takes into its messages
sampling.py     what a list reads of a large file
compressed.py   files that Codex has compressed
codex.py        rollouts of Codex: a list of items
gemini_cli.py   sessions of Gemini CLI: a log of operations on a list
opencode/       sessions of opencode: rows of a store
neighbours.py   what the files beside a file say of its session
source.py       the lines of a file, and what of them has no place in a copy
writing.py      entries in their places, as native lines
"""
