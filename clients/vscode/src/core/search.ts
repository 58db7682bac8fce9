import type { Result } from "sessiond-client";

import type { Connection } from "./connection.js";

export type Hit = Result<"session/search">["hits"][number];

export const HITS_MAX = 50;

/** A search while a person types: a new question gives up the one before. */
export class Search {
  #abort: AbortController | undefined;

  constructor(private readonly connection: Connection) {}

  /** Return the hits; undefined if a later question came meanwhile. */
  async ask(query: string, cwd?: string): Promise<Hit[] | undefined> {
    this.stop();
    if (query.trim() === "") return [];
    const abort = new AbortController();
    this.#abort = abort;
    try {
      const client = await this.connection.client();
      const where = cwd === undefined ? {} : { cwd };
      const params = { query: query.slice(0, 1000), limit: HITS_MAX, ...where };
      const { hits } = await client.search(params, { signal: abort.signal });
      return abort.signal.aborted ? undefined : hits;
    } catch (error) {
      if (abort.signal.aborted) return undefined;
      throw error;
    }
  }

  stop(): void {
    this.#abort?.abort();
  }
}
