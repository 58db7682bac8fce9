import { randomBytes } from "node:crypto";

import type { Result } from "sessiond-client";

import type { Connection } from "./connection.js";

/** A message that is to be stored once, however often `append` is called. */
export class OutgoingMessage {
  readonly #id = randomBytes(16).toString("hex");

  constructor(
    private readonly connection: Connection,
    private readonly place: { session_id: string; head?: string },
    private readonly text: string,
  ) {}

  async append(): Promise<Result<"session/append">> {
    const message = { role: "user", content: this.text };
    const entry = { type: "message" as const, id: this.#id, message };
    return (await this.connection.client()).append({ ...this.place, entry });
  }
}
