"""The configuration of a daemon and of the commands."""
