"""Bounds of the client's own, with what happens when it is reached. Times are seconds."""

from __future__ import annotations

from typing import Final

# One line from the daemon: an answer has at most 64 MiB, an entry that another
# program wrote may be larger. More is a violation and ends the connection.
LINE_BYTES_MAX: Final = 256 * 1024 * 1024
# One read of the socket; with the line it belongs to, all that a slow consumer holds.
READ_BYTES: Final = 64 * 1024
# Frames that one write hands to the kernel together.
SEND_FRAMES_MAX: Final = 64
# Events that arrived before the answer to their subscription; more is a violation.
HELD_BYTES_MAX: Final = LINE_BYTES_MAX

# Delay before attempt n: doubled from the first to the longest, then jittered.
BACKOFF_FIRST: Final = 0.05
BACKOFF_LONGEST: Final = 2.0
# A request whose connection broke this often may be what breaks it.
RESENDS_MAX: Final = 10
# A disk that refuses a write this often needs a person.
STORAGE_RETRIES_MAX: Final = 4

# A lease is renewed so many times while it lasts; one that fails leaves time for another.
LEASE_RENEWALS: Final = 3
# A lease that is not released by then ends by itself.
RELEASE_SECONDS: Final = 5.0

# Who leaves an offer waits so long until the answers given are sent; then they are lost with it.
LAST_ANSWERS_SECONDS: Final = 5.0

# A daemon that does not answer by then is not coming; the command gives up before that.
START_SECONDS: Final = 60.0
# A daemon from which nothing came for half of it is asked whether it lives; at its end, calls without a time
# limit of their own are given up.
SILENCE_SECONDS: Final = 30.0
# Of what a failed start said.
LAST_WORDS_BYTES: Final = 16 * 1024

TIMEOUT_DEFAULT: Final = 30.0
