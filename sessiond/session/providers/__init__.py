"""A context as the messages that a provider's API takes."""
