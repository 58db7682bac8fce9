import type { InitializeResult } from "../protocol.js";
import { VERSION } from "./generated/facts.js";

/** What the daemon says of itself. Members are missing in the answer of a daemon that is older than they are. */
export type DaemonInfo = Partial<InitializeResult["server_info"]>;

/** Return a line about a daemon that is of another version than this client; undefined if it is of the same. */
export function difference(daemon: DaemonInfo): string | undefined {
  const version = daemon.version ?? "";
  if (version === VERSION) return undefined;
  const age = isNewer(numbers(version), numbers(VERSION)) ? "newer" : "older";
  const what = `${age} (${version || "unnamed"}) than this program (${VERSION})`;
  return `the running daemon is ${what}: \`sessiond restart\` replaces it`;
}

/** Warn, as Node does on standard error, of a daemon of another version. */
export function warn(daemon: DaemonInfo): void {
  const text = difference(daemon);
  if (text !== undefined) process.emitWarning(text, "SessiondWarning");
}

function numbers(version: string): number[] {
  return (version.match(/\d{1,9}/g) ?? []).map(Number);
}

function isNewer(left: number[], right: number[]): boolean {
  for (let at = 0; at < Math.max(left.length, right.length); at++) {
    const [one, other] = [left[at] ?? -1, right[at] ?? -1];
    if (one !== other) return one > other;
  }
  return false;
}
