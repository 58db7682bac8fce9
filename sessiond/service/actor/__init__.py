"""Actor of one open session: its inbox, its writer, its leases, and its end."""
