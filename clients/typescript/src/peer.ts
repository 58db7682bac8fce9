/**
 * The rule by which nothing is sent to another user: Node does not tell the user at the other end of a socket, so the
 * folder of the socket must be this user's alone.
 */
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  realpathSync,
  type Stats,
} from "node:fs";
import { basename, dirname, join } from "node:path";

import { ForeignSocket } from "./errors.js";

const OWN_FOLDERS = "/proc/self/fd";
const ROOT = 0;
const STICKY = 0o1000;

export interface Address {
  /** What to connect to; a path of any length, where the system has descriptors with names. */
  readonly name: string;
  release(): void;
}

/**
 * Return the address of a socket whose folder only this user may write to; throws ForeignSocket for any other one.
 *
 * Throws ENOENT if the folder is missing.
 */
export function ownAddress(path: string): Address {
  const folder = dirname(path);
  const seen = lstatSync(folder);
  if (!seen.isDirectory()) throw refusal(path, `${folder} is a link, or no folder`);
  if (process.platform !== "linux" || !existsSync(OWN_FOLDERS)) {
    requirePrivate(path, folder, seen);
    requireOwnWay(path, folder);
    requireOwnFile(path, path);
    return { name: path, release: () => undefined };
  }
  // The descriptor is of the folder that was looked at, whatever happens to its name.
  const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    requirePrivate(path, folder, fstatSync(descriptor));
    const name = join(OWN_FOLDERS, String(descriptor), basename(path));
    requireOwnFile(path, name);
    return { name, release: () => closeSync(descriptor) };
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

function requirePrivate(path: string, folder: string, { uid, mode }: Stats): void {
  if (uid !== process.geteuid?.()) throw refusal(path, `${folder} belongs to another user (uid ${uid})`);
  if ((mode & 0o777) !== 0o700) throw refusal(path, `${folder} has the mode ${octal(mode)} in place of 0700`);
}

/** Require of every folder above that no other user can put another folder in its place. */
function requireOwnWay(path: string, folder: string): void {
  for (const first of new Set([folder, realpathSync(folder)])) {
    for (let below = first, above = dirname(first); above !== below; below = above, above = dirname(above)) {
      const found = lstatSync(above);
      if (!isOwn(found.uid)) throw refusal(path, `${above} belongs to another user (uid ${found.uid})`);
      const isOpen = found.isDirectory() && (found.mode & 0o022) !== 0 && (found.mode & STICKY) === 0;
      if (isOpen) throw refusal(path, `${above} has the mode ${octal(found.mode)}: other users may write to it`);
    }
  }
}

function requireOwnFile(path: string, name: string): void {
  const found = lstatSync(name);
  if (found.isSymbolicLink()) throw refusal(path, "the socket is a link");
  if (!isOwn(found.uid)) throw refusal(path, `the socket belongs to another user (uid ${found.uid})`);
}

function isOwn(uid: number): boolean {
  return uid === process.geteuid?.() || uid === ROOT;
}

function octal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, "0");
}

function refusal(path: string, flaw: string): ForeignSocket {
  const then = "mend that, or name a socket in a folder of your own with mode 0700";
  return new ForeignSocket(`nothing was sent to ${path}, for another user may listen there: ${flaw}; ${then}`, false);
}
