"""Commands' work without a daemon, also while a daemon writes: files are read, never changed."""
