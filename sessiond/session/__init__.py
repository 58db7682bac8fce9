"""The state of one session as pure data: what its lines mean, and what may come next."""
