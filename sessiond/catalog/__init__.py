"""What sessions exist: an index over the files that can be deleted at any time."""
