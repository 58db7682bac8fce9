"""Public fakes and conformance suites, for sessiond's tests and for other projects."""
