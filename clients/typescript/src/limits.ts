// Bounds of the client's own. Times are milliseconds, sizes bytes.

/** A longer line of the daemon ends the connection: an answer has at most 64 MiB, a foreign entry may have more. */
export const LINE_BYTES_MAX = 256 * 1024 * 1024;

/** The pause before the first try to connect again; doubled with each failure, less up to half by chance. */
export const BACKOFF_FIRST_MS = 50;
export const BACKOFF_LONGEST_MS = 2000;

/** A request whose connection broke this often may be what breaks the connection. */
export const RESENDS_MAX = 10;

/** A disk that refuses a write this often needs a person. */
export const STORAGE_RETRIES_MAX = 4;

/** A lease is renewed so many times while it lasts. */
export const LEASE_RENEWALS = 3;
export const LEASE_TTL_MS = 30_000;

/** A lease that is not released by then ends by itself. */
export const RELEASE_MS = 5000;

/** A daemon that does not answer by then is not coming. */
export const START_MS = 60_000;

/**
 * A daemon from which nothing came for half of it is asked whether it lives; at its end, calls without a time limit
 * are given up.
 */
export const SILENCE_MS = 30_000;

/** What a failed start said, of which the last line is quoted. */
export const LAST_WORDS_BYTES = 16 * 1024;

export const TIMEOUT_MS = 30_000;
