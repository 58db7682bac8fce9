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

/** The calls that show what mutations change, by the mutations. */
export const CHECKS: Readonly<Record<string, string>> = {
  "retention/run": "session/list",
  "scope/resolve": "session/list",
  "scope/switch": "session/list",
  "secret/delete": "secret/list",
  "secret/get": "secret/list",
  "secret/rotate": "secret/list",
  "secret/set": "secret/list",
  "server/stop": "server/ping",
  "session/acquire": "session/get",
  "session/append": "session/entries",
  "session/archive": "session/get",
  "session/artifact": "session/entries",
  "session/branch": "session/heads",
  "session/compact": "session/entries",
  "session/continue_recent": "session/list",
  "session/create": "session/get",
  "session/decide": "session/entries",
  "session/delete": "session/get",
  "session/forget": "session/get",
  "session/fork": "session/list",
  "session/import": "session/list",
  "session/label": "session/labels",
  "session/merge": "session/entries",
  "session/navigate": "session/heads",
  "session/prune": "session/entries",
  "session/purge": "session/trash",
  "session/rebase": "session/list",
  "session/release": "session/get",
  "session/renew": "session/get",
  "session/repair": "session/verify",
  "session/reset": "session/heads",
  "session/restore": "session/get",
  "session/rewind": "session/heads",
  "session/task": "session/entries",
  "session/unarchive": "session/get",
  "session/update": "session/get",
  "state/delete": "state/get",
  "state/load": "state/list",
  "state/set": "state/get",
};

/** Mutations that entry ids or an idempotency_key name: such a one is done once. */
export const KEYED: readonly string[] = [
  "session/append",
  "session/artifact",
  "session/compact",
  "session/decide",
  "session/merge",
  "session/prune",
  "session/task",
];

/** Methods that change nothing: to do one twice is to do it once. */
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

/** Mutations that are done once if they are done twice. */
export const SAFE: readonly string[] = [
  "scope/resolve",
  "scope/switch",
  "secret/get",
  "session/acquire",
  "session/archive",
  "session/delete",
  "session/release",
  "session/renew",
  "session/unarchive",
];

/** A longer frame is refused. */
export const REQUEST_BYTES_MAX = 33554432;

/** A longer summary is refused. */
export const SUMMARY_BYTES_MAX = 1048576;

/** The code of the refusal of a frame. */
export const TOO_LARGE = -32014;

/** Version of the daemon whose protocol this client has. */
export const VERSION = "0.1.1";
