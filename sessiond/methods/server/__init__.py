"""The methods whose names begin with `server/`, a file each."""
