"""The methods whose names begin with `catalog/`, a file each."""
