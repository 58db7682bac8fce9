"""What the model sees at a leaf, and how many tokens that comes to."""
