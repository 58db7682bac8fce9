"""The context that the model sees at a leaf, and its size in tokens.

context.py    the entries that the model sees at a leaf
tokens.py     estimates of tokens
stringify.py  JSON and lengths as JavaScript has them
"""
