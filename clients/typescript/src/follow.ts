import type { After, Result, WatchResult } from "../protocol.js";
import { Arrivals, type SessionNotification, type SubscribeParams } from "./arrivals.js";
import { ClientClosed, type SessiondError } from "./errors.js";
import { type CatalogChanged, HintArrivals } from "./hints.js";

/** One follow's access to the connection that all calls and follows share. */
export interface Line {
  send(method: string, params: object): void;
  /** Subscribe again, after a pause. */
  again(): void;
  end(): void;
}

/**
 * A subscription over the connection of the calls: for programs with one connection, such as an editor.
 *
 * Each event is given to a listener at once, in the order of the connection: the answer to a `flush` comes
 * behind the events before the flush. The listener must not throw.
 */
export abstract class Follow {
  /** The name under which the connection knows what comes for this follow. */
  abstract readonly key: string;
  #line: Line | undefined;
  #isAnswered = false;
  #end: SessiondError | undefined;
  readonly #started: PromiseWithResolvers;

  constructor(private readonly area: "session" | "catalog") {
    this.#started = withResolvers();
    // A caller that does not wait for the first answer is told of a failure by `ended`.
    this.#started.promise.catch(() => undefined);
  }

  /** Resolves with the first answer of the daemon, or rejects with the error that ends the follow. */
  get started(): Promise<void> {
    return this.#started.promise;
  }

  /** End the follow; nothing is given to the listener from now on. */
  stop(): void {
    if (this.#end !== undefined) return;
    this.#end = new ClientClosed("the follow was stopped");
    this.#started.fail(this.#end);
    this.#line?.send(`${this.area}/unsubscribe`, this.target);
    this.#line?.end();
  }

  /** Take the connection; `request` is sent on each one. */
  attach(line: Line): void {
    this.#line = line;
  }

  request(): { method: string; params: object } {
    return { method: `${this.area}/subscribe`, params: this.params() };
  }

  answered(result: unknown): void {
    this.#isAnswered = true;
    this.begin(result);
    this.#started.fulfil();
  }

  told(method: string, params: unknown): void {
    // An event before the answer belongs to an earlier subscription of this connection.
    if (!this.#isAnswered || this.#end !== undefined) return;
    this.take(method, params);
    if (method === "session/closed") {
      // The daemon has let go of the session: subscribing again goes on, or says why not.
      this.#isAnswered = false;
      this.#line?.again();
    }
  }

  lost(): void {
    this.#isAnswered = false;
  }

  failed(error: SessiondError): void {
    if (this.#end !== undefined) return;
    this.#end = error;
    this.#started.fail(error);
    this.ended(error);
  }

  protected abstract readonly target: object;
  protected abstract params(): object;
  protected abstract begin(result: unknown): void;
  protected abstract take(method: string, params: unknown): void;
  protected abstract ended(error: SessiondError): void;
}

export interface FollowListener {
  onEvent(event: SessionNotification): void;
  /** Told why the follow ended by itself: a session that is no more, or a client that was closed. */
  onEnd?(error: SessiondError): void;
}

/** A session's events, each entry once and in order, over any number of lost connections. */
export class SessionFollow extends Follow {
  readonly #arrivals: Arrivals;

  constructor(
    params: SubscribeParams,
    private readonly listener: FollowListener,
  ) {
    super("session");
    this.#arrivals = new Arrivals(params, (event) => listener.onEvent(event));
  }

  get key(): string {
    return `session ${this.#arrivals.sessionId}`;
  }

  /** The place behind the last event that was given. */
  get cursor(): After | undefined {
    return this.#arrivals.place;
  }

  protected get target(): object {
    return { session_id: this.#arrivals.sessionId };
  }

  protected params(): object {
    return this.#arrivals.params();
  }

  protected begin(result: unknown): void {
    this.#arrivals.begin(result as Result<"session/subscribe">);
  }

  protected take(method: string, params: unknown): void {
    this.#arrivals.take({ jsonrpc: "2.0", method, params } as SessionNotification);
  }

  protected ended(error: SessiondError): void {
    this.listener.onEnd?.(error);
  }
}

/** Hints that lists of sessions have changed; what is true is what `list` says. */
export class CatalogFollow extends Follow {
  readonly key = "catalog";
  protected readonly target = {};
  readonly #arrivals: HintArrivals<CatalogChanged>;

  constructor(onHint: (hint: CatalogChanged) => void) {
    super("catalog");
    this.#arrivals = new HintArrivals("catalog", {}, onHint);
  }

  protected params(): object {
    return {};
  }

  protected begin(result: unknown): void {
    this.#arrivals.begin(result as WatchResult);
  }

  protected take(method: string, params: unknown): void {
    this.#arrivals.take(method, params);
  }

  protected ended(): void {}
}

interface PromiseWithResolvers {
  promise: Promise<void>;
  fulfil(): void;
  fail(error: unknown): void;
}

function withResolvers(): PromiseWithResolvers {
  let fulfil = (): void => undefined;
  let fail = (_error: unknown): void => undefined;
  const promise = new Promise<void>((first, second) => {
    fulfil = first;
    fail = second;
  });
  return { promise, fulfil, fail };
}
