// Generated from the types of the protocol; run: make schema

/** Methods by their short names. */
export const ALIASES: Readonly<Record<string, string>> = {
  "append": "session/append",
  "branch": "session/branch",
  "build_context": "session/build_context",
  "compact": "session/compact",
  "subscribe": "session/subscribe",
  "unsubscribe": "session/unsubscribe",
};

/** Methods that need no right to write: to do one twice is to do it once. */
export const READS: readonly string[] = [
  "catalog/forest",
  "catalog/roots",
  "rpc.discover",
  "secret/list",
  "server/info",
  "server/ping",
  "server/stats",
  "session/brief",
  "session/build_context",
  "session/close",
  "session/entries",
  "session/entry",
  "session/flush",
  "session/get",
  "session/heads",
  "session/labels",
  "session/list",
  "session/open",
  "session/path",
  "session/plan_branch_summary",
  "session/plan_compaction",
  "session/plan_merge",
  "session/presence",
  "session/queue",
  "session/resolve",
  "session/resolve_entries",
  "session/search",
  "session/stats",
  "session/trash",
  "session/tree",
  "session/turns",
  "session/usage",
  "session/verify",
  "state/all",
  "state/get",
  "state/list",
];

/** A longer frame is refused. */
export const REQUEST_BYTES_MAX = 33554432;

/** A longer summary is refused. */
export const SUMMARY_BYTES_MAX = 1048576;

/** The code of the refusal of a frame. */
export const TOO_LARGE = -32014;
