/** One session of pi, opened in sessiond: its presence, and what other clients send. */
import { existsSync } from "node:fs";

import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";
import { type Client, connect, type DaemonInfo, difference, type SessionNotification } from "sessiond-client";

import { Presence, type State } from "./presence.ts";
import { answerOf, perform, type Request, requestOf } from "./requests.ts";
import { Unseen } from "./unseen.ts";

/** The connection of pi to sessiond for as long as pi has a session open. */
export class Attachment {
  readonly #unseen = new Unseen();
  readonly #presence: Presence;
  #client: Client | undefined;
  #sessionId: string | undefined;
  /** `waiting` until the session's file exists. */
  #state: "waiting" | "attaching" | "attached" | "failed" | "over" = "waiting";
  #failure = "";

  constructor(
    private readonly pi: ExtensionAPI,
    private readonly ctx: ExtensionContext,
    reason: string,
  ) {
    this.#presence = new Presence(pi, ctx, reason);
  }

  /** Begin to attach, if the session has a file; return at once. */
  attach(): void {
    if (this.#state !== "waiting") return;
    const file = this.ctx.sessionManager.getSessionFile();
    if (file === undefined || !existsSync(file)) return;
    this.#state = "attaching";
    this.#follow(file).then(
      () => this.#fail("the connection ended"),
      (error: unknown) => this.#fail(error instanceof Error ? error.message : String(error)),
    );
  }

  /** Attach anew after a failure. */
  retry(): void {
    if (this.#state === "failed") this.#state = "waiting";
    this.attach();
  }

  /** Take the state of the agent. */
  works(state: State): void {
    this.attach();
    this.#presence.state = state;
    this.announce();
  }

  /** Say the presence again, if a part of the presence has changed. */
  announce(): void {
    this.#presence.announce();
  }

  /** End every connection; presence ends with them. */
  end(): void {
    this.#state = "over";
    this.#presence.pause();
    this.#client?.disconnect();
  }

  /** Return the lines of the command `/sessiond`. */
  status(): string {
    switch (this.#state) {
      case "attached": {
        const others = this.#presence.others();
        const company = others.length === 0 ? "no other client" : others.join(", ");
        return [`sessiond: session ${this.#sessionId}`, `present: ${company}`, ...this.#unseen.lines()].join("\n");
      }
      case "failed":
        return `sessiond: not connected: ${this.#failure}`;
      case "attaching":
        return "sessiond: connecting";
      default:
        return "sessiond: waits for the session's file, which pi makes with the first answer";
    }
  }

  #tellAnother(daemon: DaemonInfo): void {
    const text = difference(daemon);
    if (text !== undefined) this.ctx.ui.notify(`sessiond: ${text}`, "warning");
  }

  async #follow(path: string): Promise<void> {
    const clientId = this.#presence.clientId;
    // A daemon is started once. Later a daemon that the user has stopped stays so until a client starts one.
    (await connect({ clientId, onDaemon: () => undefined })).disconnect();
    if (this.#isOver()) return;
    const client = await connect({ clientId, start: false, onDaemon: (daemon) => this.#tellAnother(daemon) });
    this.#client = client;
    if (this.#isOver()) {
      client.disconnect();
      return;
    }
    try {
      const { session } = await client.open({ path });
      const after = this.#cursor();
      const events = await client.subscribe({ session_id: session.id, bodies: false, signals: true, after });
      this.#sessionId = session.id;
      if (this.#isOver()) return;
      this.#state = "attached";
      this.#presence.begin(client, session.id);
      for await (const event of events) {
        if (this.#isOver()) return;
        this.#take(client, event);
      }
    } finally {
      client.disconnect();
    }
  }

  /** Return the place of pi's last entry: whatever the file has behind the place, pi has not read. */
  #cursor(): { seq: number; entry_id: string } | 0 {
    const entries = this.ctx.sessionManager.getEntries();
    const last = entries.at(-1);
    return last === undefined ? 0 : { seq: entries.length, entry_id: last.id };
  }

  #take(client: Client, event: SessionNotification): void {
    switch (event.method) {
      case "session/event": {
        const { id } = event.params.entry as { id: string };
        // pi knows an entry before pi writes the entry: what pi does not know, another program wrote.
        if (this.ctx.sessionManager.getEntry(id) === undefined) this.#warn(this.#unseen.add(id));
        break;
      }
      case "session/replaced":
        this.#unseen.clear();
        break;
      case "session/presence":
        this.#presence.clients = event.params.clients;
        break;
      case "session/signal": {
        const request = requestOf(event.params);
        if (request !== undefined && this.#presence.isAddressed(request.to)) this.#perform(client, request);
        break;
      }
    }
  }

  #perform(client: Client, request: Request): void {
    const refusal = perform(this.pi, this.ctx, request);
    const session_id = this.#sessionId ?? "";
    client.signal({ session_id, ...answerOf(request, refusal) }).catch(() => undefined);
    if (refusal === undefined && request.queueId !== undefined) {
      client.queue({ session_id, done: [request.queueId] }).catch(() => undefined);
    }
  }

  #warn(notice: string | undefined): void {
    if (!this.ctx.hasUI) return;
    this.ctx.ui.setStatus("sessiond", this.#unseen.badge());
    if (notice !== undefined) this.ctx.ui.notify(notice, "warning");
  }

  #fail(reason: string): void {
    this.#presence.pause();
    if (this.#isOver()) return;
    const isFirst = this.#failure === "";
    this.#state = "failed";
    this.#failure = reason;
    if (!isFirst || !this.ctx.hasUI) return;
    const what = `other programs do not see this session now: ${reason}`;
    this.ctx.ui.notify(`sessiond: ${what}; the next prompt tries again`, "warning");
  }

  #isOver(): boolean {
    return this.#state === "over";
  }
}
