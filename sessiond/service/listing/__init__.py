"""Lists, searches, and the connections that watch the catalog: all sessions at once."""
