"""What is known of all sessions at once: lists, searches, and who watches them."""
