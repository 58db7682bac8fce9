import type { Lease as Granted, Params } from "../protocol.js";
import { LeaseLost, type SessiondError } from "./errors.js";
import type { Exchange, Tenure } from "./exchange.js";
import { LEASE_RENEWALS, LEASE_TTL_MS, RELEASE_MS } from "./limits.js";

export type LeaseParams = Omit<Params<"session/acquire">, "ttl_ms"> & { ttl_ms?: number };

/**
 * A head that is this client's alone until the lease is released or lost.
 *
 * The time of a lease is counted from before it was asked for, so the lease is over here no later than
 * at the daemon. A lease ends with its connection and does not begin again: acquire another one, look, decide.
 */
export class Lease implements Tenure {
  readonly #abort = new AbortController();
  readonly #ttlMs: number;
  #granted: Granted | undefined;
  #endsAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly exchange: Exchange,
    private readonly params: LeaseParams,
    private readonly timeoutMs: number,
  ) {
    this.#ttlMs = params.ttl_ms ?? LEASE_TTL_MS;
  }

  /** The `lease_id` for calls that move the head. Throws LeaseLost once the lease is over. */
  get id(): string {
    return this.#require().lease_id;
  }

  /** A number that is higher than that of any lease on the head before. */
  get epoch(): number {
    return this.#require().epoch;
  }

  /** Aborted, with a LeaseLost, once the lease is over before it was released. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  async acquire(): Promise<this> {
    const waitMs = this.params.wait_ms ?? 0;
    const askedAt = performance.now();
    const params = { ...this.params, ttl_ms: this.#ttlMs };
    const timeoutMs = this.timeoutMs + waitMs;
    const granted = (await this.exchange.call("session/acquire", params, {}, timeoutMs)) as Granted;
    this.exchange.begin(this);
    // After a wait only the daemon knows when the lease began: what counts is a renewal that is asked for now.
    this.#take(granted, waitMs === 0 ? askedAt : performance.now());
    if (waitMs > 0) await this.#renew();
    this.#require();
    return this;
  }

  /** Give the head back; a lease that is over already is none to give back. */
  async release(): Promise<void> {
    clearTimeout(this.#timer);
    this.exchange.end(this);
    if (this.#granted === undefined || this.signal.aborted) return;
    const { lease_id } = this.#granted;
    const { session_id } = this.params;
    this.#granted = undefined;
    try {
      await this.exchange.call("session/release", { session_id, lease_id }, {}, RELEASE_MS);
    } catch {
      // It is over, or ends by itself.
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  lose(why: SessiondError | Error): void {
    if (this.signal.aborted) return;
    clearTimeout(this.#timer);
    this.exchange.end(this);
    this.#abort.abort(new LeaseLost(`the lease is over (${why.message}): acquire it again`, { cause: why }));
  }

  #require(): Granted {
    if (this.#granted !== undefined && performance.now() >= this.#endsAt) {
      this.lose(new Error("it was not renewed in time"));
    }
    this.signal.throwIfAborted();
    if (this.#granted === undefined) throw new LeaseLost("the lease was released");
    return this.#granted;
  }

  #take(granted: Granted, askedAt: number): void {
    this.#granted = granted;
    this.#endsAt = askedAt + this.#ttlMs;
    const pause = Math.max(0, askedAt + this.#ttlMs / LEASE_RENEWALS - performance.now());
    // The lease alone keeps no process alive.
    this.#timer = setTimeout(() => void this.#renew(), pause).unref();
  }

  async #renew(): Promise<void> {
    clearTimeout(this.#timer);
    const askedAt = performance.now();
    const { session_id } = this.params;
    try {
      const params = { session_id, lease_id: this.id, ttl_ms: this.#ttlMs };
      const left = Math.max(1, this.#endsAt - askedAt);
      const granted = (await this.exchange.call("session/renew", params, {}, left)) as Granted;
      // Not if the lease was released meanwhile.
      if (this.#granted !== undefined) this.#take(granted, askedAt);
    } catch (error) {
      this.lose(error as Error);
    }
  }
}
