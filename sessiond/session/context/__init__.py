"""The context that the model sees at a leaf, and its size in tokens."""
