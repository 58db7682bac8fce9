/** The presence of pi in its session, and the clients that are present beside pi. */
import { randomBytes } from "node:crypto";

import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";
import type { Client, Present } from "sessiond-client";

/** A state of the protocol's table. */
export type State = "idle" | "thinking" | "executing";

/** Parts of the presence that are longer are cut: the daemon takes 2 KiB. */
const NAME_CHARACTERS = 200;
const CWD_CHARACTERS = 300;

/** What pi says of itself; the newest state only, and one call at a time. */
export class Presence {
  readonly clientId = `pi-${process.pid}-${randomBytes(3).toString("hex")}`;
  state: State = "idle";
  clients: readonly Present[] = [];
  #client: Client | undefined;
  #sessionId = "";
  #said = "";
  #isSaying = false;

  constructor(
    private readonly pi: ExtensionAPI,
    private readonly ctx: ExtensionContext,
    private readonly reason: string,
  ) {}

  /** Announce pi in a session. */
  begin(client: Client, sessionId: string): void {
    this.#client = client;
    this.#sessionId = sessionId;
    this.#said = "";
    if (!this.ctx.isIdle() && this.state === "idle") this.state = "thinking";
    this.announce();
  }

  /** Announce nothing until the next `begin`. */
  pause(): void {
    this.#client = undefined;
    this.clients = [];
  }

  /** Announce what has changed since the last announcement. */
  announce(): void {
    const client = this.#client;
    if (client === undefined || this.#isSaying) return;
    const data = this.#data();
    const said = JSON.stringify([this.state, data]);
    if (said === this.#said) return;
    this.#said = said;
    this.#isSaying = true;
    const done = (): void => {
      this.#isSaying = false;
      this.announce();
    };
    client
      .presence({ session_id: this.#sessionId, state: this.state, reason: this.reason, head: "main", data })
      .then(done, done);
  }

  /** Tell whether a request is for this pi: by its name, else for the pi that came first. */
  isAddressed(to: string | undefined): boolean {
    if (to !== undefined) return to === this.clientId;
    const first = this.clients.find(isPi);
    return first === undefined || first.client_id === this.clientId;
  }

  /** Return the names of the other clients. */
  others(): string[] {
    return this.clients
      .filter((one) => one.client_id !== this.clientId)
      .map((one) => `${one.name ?? one.client_id ?? "a client"} (${one.state})`);
  }

  #data(): Record<string, unknown> {
    const { model, cwd } = this.ctx;
    return {
      agent: "pi",
      pid: process.pid,
      cwd: cwd.slice(0, CWD_CHARACTERS),
      model: model === undefined ? null : `${model.provider}/${model.id}`.slice(0, NAME_CHARACTERS),
      name: this.pi.getSessionName()?.slice(0, NAME_CHARACTERS) ?? null,
    };
  }
}

function isPi(one: Present): boolean {
  const { data } = one as { data?: unknown };
  return typeof data === "object" && data !== null && "agent" in data && data.agent === "pi";
}
