import type {
  After,
  AnyEntry,
  InitializeParams,
  Notification,
  Notifications,
  Params,
  Present,
  Result,
  SessionEvent,
} from "../protocol.js";
import { ConnectionLost } from "./errors.js";
import type { Reach } from "./reach.js";
import { Stream } from "./stream.js";

const SUBSCRIBE_ID = 1;

/** The parameters of a subscription; a number as `after` is a `seq` alone, which fits for 0 only. */
export type SubscribeParams = Omit<Params<"session/subscribe">, "after"> & { after?: After | 0 | null };

/** The answer to `requestFlush`: every entry up to `seq` came before. */
export interface Flushed {
  jsonrpc: "2.0";
  method: "session/flushed";
  params: { session_id: string; seq: number };
}

/** A notification about the session, as the protocol has it, or the answer to `requestFlush`. */
export type SessionNotification = Exclude<
  Notification,
  { method: "catalog/changed" | "state/changed" | "server/draining" | "$/progress" | "$/cancelRequest" }
> | Flushed;

type Reason = Notifications["session/replaced"]["reason"];

/** The events of a session, each entry once and in order, over any number of lost connections. */
export class Subscription extends Stream<SessionNotification> {
  readonly #params: Params<"session/subscribe">;
  /** The place in what came; behind the place in what the consumer took. */
  #arrived: After | undefined;
  #cursor: After | undefined;
  /** Events that came before the answer to the subscription. */
  #held: SessionNotification[] | undefined;
  #isPresenceTold = false;
  #flushes: number[] = [];
  #lastId = SUBSCRIBE_ID;

  constructor(reach: Reach, hello: InitializeParams | undefined, params: SubscribeParams) {
    super(reach, hello, true);
    const { after, ...rest } = params;
    this.#params = rest;
    this.#arrived = this.#cursor = after === 0 ? { seq: 0 } : (after ?? undefined);
  }

  /** The place at which a later subscription goes on: give it as `after`. */
  get cursor(): After | undefined {
    return this.#cursor;
  }

  /** Ask for a `session/flushed` among the events, behind every entry stored by now. */
  requestFlush(): void {
    const id = ++this.#lastId;
    this.#flushes.push(id);
    if (this.#held === undefined) this.#putFlush(id);
  }

  protected begun(): void {
    this.#held = [];
    const after = this.#arrived === undefined ? {} : { after: wireCursor(this.#arrived) };
    this.send({ id: SUBSCRIBE_ID, method: "session/subscribe", params: { ...this.#params, ...after } });
  }

  protected override done(id: number, result: unknown): void {
    if (id === SUBSCRIBE_ID) {
      this.#answered(result as Result<"session/subscribe">);
    } else if (this.#flushes.includes(id)) {
      this.#flushes = this.#flushes.filter((one) => one !== id);
      const { seq } = result as Result<"session/flush">;
      this.put({ jsonrpc: "2.0", method: "session/flushed", params: { ...this.#session, seq } });
    }
  }

  protected told(method: string, params: unknown): void {
    if (!method.startsWith("session/")) return;
    const event = { jsonrpc: "2.0", method, params } as SessionNotification;
    if (this.#held !== undefined) this.#held.push(event);
    else this.#event(event);
  }

  protected lost(): void {
    this.#held = undefined;
  }

  protected override taken(event: SessionNotification): void {
    if (event.method === "session/event") this.#cursor = cursorOf(event.params);
    else if (event.method === "session/replaced") this.#cursor = { seq: 0 };
  }

  get #session(): { session_id: string } {
    return { session_id: this.#params.session_id };
  }

  #answered(answer: Result<"session/subscribe">): void {
    const { epoch, seq, replaced } = answer;
    if (replaced != null) this.#replaced({ ...this.#session, epoch, reason: replaced as Reason });
    else if (this.#arrived === undefined) this.#arrived = this.#cursor = { seq, epoch };
    const clients: Present[] = answer.clients ?? [];
    if (clients.length > 0 || this.#isPresenceTold) {
      this.#event({ jsonrpc: "2.0", method: "session/presence", params: { ...this.#session, clients } });
    }
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const event of held) this.#event(event);
    for (const id of this.#flushes) this.#putFlush(id);
    this.subscribed();
  }

  #event(event: SessionNotification): void {
    switch (event.method) {
      case "session/event":
        if (this.#arrived !== undefined && event.params.seq <= this.#arrived.seq) return;
        this.#arrived = cursorOf(event.params);
        break;
      case "session/replaced":
        this.#replaced(event.params);
        return;
      case "session/presence":
        this.#isPresenceTold = event.params.clients.length > 0;
        break;
      case "session/closed":
        this.put(event);
        // The daemon has let go of the session: subscribing again goes on, or says why not.
        this.hangUp(new ConnectionLost(`the session was closed: ${event.params.reason}`, false));
        return;
    }
    this.put(event);
  }

  #replaced(params: Extract<SessionNotification, { method: "session/replaced" }>["params"]): void {
    // Told by the answer and by a notification, a replacement is one event all the same.
    if (this.#arrived?.seq === 0 && this.#arrived.epoch === params.epoch) return;
    this.#arrived = { seq: 0, epoch: params.epoch };
    this.put({ jsonrpc: "2.0", method: "session/replaced", params });
  }

  #putFlush(id: number): void {
    this.send({ id, method: "session/flush", params: this.#session });
  }
}

function cursorOf({ seq, epoch, entry }: SessionEvent): After {
  const { id } = entry as AnyEntry;
  return { seq, epoch, entry_id: id };
}

/** Return the cursor to send: the start alone, or one proof that the daemon checks. */
function wireCursor({ seq, entry_id, epoch }: After): After {
  if (seq === 0) return { seq: 0 };
  if (entry_id !== undefined) return { seq, entry_id };
  return epoch === undefined ? { seq } : { seq, epoch };
}
