"""The methods whose names begin with `state/`, a file each."""
