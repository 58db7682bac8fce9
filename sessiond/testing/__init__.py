"""Public fakes and conformance suites: what the tests stand on, for other projects too."""
