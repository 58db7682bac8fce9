"""The methods whose names begin with `rpc.`, a file each."""
