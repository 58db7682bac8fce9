"""Where a context is cut, what is summarised, and the entry that stands for it."""
