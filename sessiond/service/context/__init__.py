"""Contexts and token figures of open sessions, kept in caches."""
