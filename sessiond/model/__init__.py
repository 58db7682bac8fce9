"""Pure data that every layer above may import.

entries.py         the entry types
row.py             the row of an entry in the index
message_lines.py   messages of consecutive lines, as columns
events.py          the notifications to clients
requests.py        the requests to clients
deferred.py        the result of a call that is answered later
parsed_message.py  decoded messages
searched.py        the texts by which a search finds an entry
usage.py           tokens and cost
plans.py           the plan of a compaction
problems.py        the problems of lines
settings.py        the compaction settings
formats.py         the names of the formats of files
scopes.py          the keys of scoped sessions
digests.py         SHA-256 of bytes
ids.py             the ids of sessions, entries and heads
times.py           the spellings of times
integers.py        the spellings of integers
escapes.py         JSON escapes that are half a character
nesting.py         the depth of JSON
short_texts.py     JSON without the ends of its long texts
working/           what an agent must remember
"""
