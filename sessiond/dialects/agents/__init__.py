"""Sessions of other agents, read where their files lie: a line at a time, as native entries.

reading.py      the port of a reading, and what all readings share
view.py         the dialect of such a session: native lines, and contexts with each answer in one piece
claude_code.py  the reading of a session of Claude Code
claude_tree.py  the places of its lines
claude_messages.py  what one of its lines says
source_line.py  one line of a file as an object
own_entries.py  ids, times and records of a reading's entries
replies.py      answers in parts: one message for each line, and usage that counts once
codex.py        rollouts of Codex: a list of items
codex_items.py  words, calls and results of one item of a rollout
codex_compactions.py  the compactions of a rollout
codex_turns.py  its turns, which a rollback drops
gemini_cli.py   chats of Gemini CLI: a log of operations on a list
gemini_items.py words, calls and results of one message of a chat
gemini_list.py  the list of a chat's messages
"""
