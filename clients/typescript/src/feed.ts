import type { After, InitializeParams, Result } from "../protocol.js";
import { Arrivals, cursorOf, type SessionNotification, type SubscribeParams } from "./arrivals.js";
import { ConnectionLost } from "./errors.js";
import type { Reach } from "./reach.js";
import { Stream } from "./stream.js";

const SUBSCRIBE_ID = 1;

/** The events of a session, each entry once and in order, over any number of lost connections. */
export class Subscription extends Stream<SessionNotification> {
  /** The place in what came; behind the place in what the consumer took. */
  readonly #arrivals: Arrivals;
  #cursor: After | undefined;
  /** Events that came before the answer to the subscription. */
  #held: SessionNotification[] | undefined;
  #flushes: number[] = [];
  #lastId = SUBSCRIBE_ID;

  constructor(reach: Reach, hello: InitializeParams | undefined, params: SubscribeParams) {
    super(reach, hello, true);
    this.#arrivals = new Arrivals(params, (event) => this.put(event));
    this.#cursor = this.#arrivals.place;
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
    this.send({ id: SUBSCRIBE_ID, method: "session/subscribe", params: this.#arrivals.params() });
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
    return { session_id: this.#arrivals.sessionId };
  }

  #answered(answer: Result<"session/subscribe">): void {
    this.#arrivals.begin(answer);
    this.#cursor ??= this.#arrivals.place;
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const event of held) this.#event(event);
    for (const id of this.#flushes) this.#putFlush(id);
    this.subscribed();
  }

  #event(event: SessionNotification): void {
    this.#arrivals.take(event);
    if (event.method === "session/closed") {
      // The daemon has let go of the session: subscribing again goes on, or says why not.
      this.hangUp(new ConnectionLost(`the session was closed: ${event.params.reason}`, false));
    }
  }

  #putFlush(id: number): void {
    this.send({ id, method: "session/flush", params: this.#session });
  }
}
