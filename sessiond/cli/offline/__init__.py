"""What works without a daemon, and while one writes: reading files, changing nothing."""
