"""The methods whose names begin with `scope/`, a file each."""
