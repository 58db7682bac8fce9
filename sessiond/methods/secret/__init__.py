"""The methods whose names begin with `secret/`, a file each."""
