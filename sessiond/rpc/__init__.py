"""JSON-RPC 2.0 without I/O and without sessions: bytes to requests, results to bytes."""
