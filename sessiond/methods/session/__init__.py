"""The methods whose names begin with `session/`, a file each."""
