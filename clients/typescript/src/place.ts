import { createHash } from "node:crypto";
import { lstatSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";

import { CannotStart } from "./errors.js";

/** What fits into the address of a Unix socket. */
const ADDRESS_BYTES_MAX = process.platform === "linux" ? 107 : 103;
const HASH_DIGITS = 8;
const LONG_HASH_DIGITS = 24;

export type Environment = Readonly<Record<string, string | undefined>>;

/** The daemon that is meant: by its socket, or by profile and home; the user's own if nothing is named. */
export interface Place {
  socket?: string | undefined;
  profile?: string | undefined;
  home?: string | undefined;
}

/**
 * Return the absolute path of the socket, by the rule of the daemon itself.
 *
 * Throws CannotStart for a folder in the temporary folder that other users may write to.
 */
export function socketPath(environment: Environment, place: Place): string {
  const named = place.socket || (place.profile || place.home ? undefined : environment["SESSIOND_SOCKET"]);
  if (named) return resolve(expanded(named));
  const path = defaultPath(environment, place);
  if (dirname(path) === temporary(environment)) requirePrivate(dirname(path));
  return path;
}

function defaultPath(environment: Environment, place: Place): string {
  const profile = place.profile || environment["SESSIOND_PROFILE"] || "default";
  if (profile.includes("/") || profile.startsWith(".")) {
    throw new TypeError(`${JSON.stringify(profile)} is no profile: a profile is a plain name`);
  }
  const home = expanded(place.home || environment["SESSIOND_HOME"] || "");
  // A relative folder counts where the program named the folder, not in the environment.
  const ownHome = place.home ? resolve(home) : isAbsolute(home) ? resolve(home) : undefined;
  const name = ownHome === undefined ? profile : `${profile}-${hash(ownHome, HASH_DIGITS)}`;
  const runtime = environment["XDG_RUNTIME_DIR"] ?? "";
  const folder = isAbsolute(runtime) ? join(runtime, "sessiond") : temporary(environment);
  const path = join(folder, `${name}.sock`);
  if (Buffer.byteLength(path) <= ADDRESS_BYTES_MAX) return path;
  return join(temporary(environment), `${hash(path, LONG_HASH_DIGITS)}.sock`);
}

function expanded(path: string): string {
  return path === "~" || path.startsWith("~/") ? join(homedir(), path.slice(1)) : path;
}

function temporary(environment: Environment): string {
  const root = environment["TMPDIR"] ?? "";
  return join(isAbsolute(root) ? root : "/tmp", `sessiond-${process.getuid?.() ?? 0}`);
}

function requirePrivate(folder: string): void {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (found === undefined) return;
  let flaw: string | undefined;
  if (!found.isDirectory()) flaw = "is no folder";
  else if (found.uid !== process.getuid?.()) flaw = `belongs to the user with uid ${found.uid}`;
  else if ((found.mode & 0o077) !== 0) flaw = "is open to other users (mode 0700 is needed)";
  if (flaw === undefined) return;
  throw new CannotStart(
    `${basename(folder)} in the temporary folder ${flaw}, so another user could stand in for the daemon; ` +
      "mend the folder, or choose a place with SESSIOND_SOCKET",
  );
}

function hash(text: string, digits: number): string {
  return createHash("sha256").update(text).digest("hex").slice(0, digits);
}
