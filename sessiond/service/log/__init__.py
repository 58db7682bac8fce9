"""Lines of an open session and figures from them; actors and files share this package."""
