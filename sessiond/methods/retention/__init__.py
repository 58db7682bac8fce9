"""The methods whose names begin with `retention/`, a file each."""
