"""A context as the messages that a provider's API takes.

turns.py         messages as turns
tool_pairing.py  each call with its one result
call_ids.py      legal ids and names of calls
images.py        images that providers accept
anthropic.py     Messages API
openai.py        Chat Completions
shapes.py        the views of a context
"""
