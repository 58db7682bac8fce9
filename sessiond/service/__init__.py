"""Live sessions: one writer each, any number of readers and subscribers."""
