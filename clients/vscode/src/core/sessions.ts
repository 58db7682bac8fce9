import type { CatalogFollow, Client, SessionInfo } from "sessiond-client";

import type { Connection } from "./connection.js";
import { Refresher } from "./refresher.js";

export const SESSIONS_MAX = 500;

/** The sessions of some projects, newest first, read again when the daemon hints at a change. */
export class SessionList {
  #sessions: readonly SessionInfo[] = [];
  #follow: CatalogFollow | undefined;
  readonly #refresher: Refresher;

  /** `folders` returns the projects; undefined means every project. */
  constructor(
    private readonly connection: Connection,
    private readonly folders: () => readonly string[] | undefined,
    private readonly changed: (error?: unknown) => void,
  ) {
    this.#refresher = new Refresher(() => this.refresh(), changed);
  }

  get sessions(): readonly SessionInfo[] {
    return this.#sessions;
  }

  /** Read the list now, and follow its changes from now on. */
  async refresh(): Promise<void> {
    const client = await this.connection.client();
    this.#follow ??= client.followCatalog(() => this.#refresher.request());
    // A hint that comes while the list is read asks for another reading: nothing is missed.
    await this.#follow.started;
    this.#sessions = await listed(client, this.folders());
    this.changed();
  }

  dispose(): void {
    this.#refresher.dispose();
    this.#follow?.stop();
  }
}

async function listed(client: Client, folders: readonly string[] | undefined): Promise<SessionInfo[]> {
  const filters = folders === undefined ? [{}] : folders.map((cwd) => ({ cwd }));
  const pages = await Promise.all(filters.map((filter) => client.list({ ...filter, limit: SESSIONS_MAX })));
  const found = new Map(pages.flatMap((page) => page.sessions).map((info) => [info.id, info]));
  const newestFirst = (one: SessionInfo, other: SessionInfo): number =>
    one.updated_at < other.updated_at ? 1 : one.updated_at > other.updated_at ? -1 : 0;
  return [...found.values()].sort(newestFirst).slice(0, SESSIONS_MAX);
}

/** Return what a session is called. */
export function titleOf(info: Pick<SessionInfo, "title" | "first_message" | "id">): string {
  const words = info.title || info.first_message || info.id;
  return words.replaceAll(/[\s\p{Cc}]+/gu, " ").trim().slice(0, 80) || info.id;
}

/** Return what is said of a session beside its title. */
export function detailsOf(info: SessionInfo): string {
  const count = info.message_count;
  // Of a large file of another agent a list may have read a part: there are at least so many messages.
  const words = [info.partial ? `${count}+ messages` : `${count} ${count === 1 ? "message" : "messages"}`];
  if (info.agent_program !== "native") words.push(info.agent_program);
  if (info.read_only) words.push("read-only");
  if (info.running !== undefined) words.push(info.running);
  return words.join(" · ");
}
