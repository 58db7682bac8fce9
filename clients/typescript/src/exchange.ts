import type { InitializeParams, InitializeResult } from "../protocol.js";
import { Call, type CallOptions, type Values } from "./call.js";
import { backoff, Conversation, type Outcome, retryAfter } from "./conversation.js";
import {
  CannotStart,
  ClientClosed,
  ConnectionLost,
  ForeignSocket,
  type RpcError,
  type SessiondError,
  Timeout,
} from "./errors.js";
import type { Follow } from "./follow.js";
import { RESENDS_MAX, SILENCE_MS, STORAGE_RETRIES_MAX } from "./limits.js";
import type { Reach } from "./reach.js";
import { later } from "./timers.js";
import type { DaemonInfo } from "./versions.js";

/** What ends with the connection on which it was acquired. */
export interface Tenure {
  lose(why: SessiondError): void;
}

/** A follow, with the request for it that has no answer yet. */
interface Followed {
  follow: Follow;
  id: number;
  refusals: number;
  /** Set while a pause before the next try lasts. */
  delay?: NodeJS.Timeout;
}

interface Progress {
  token: string | number;
  value: { done: number; total: number | null; unit: string };
}

/**
 * Every call that has no outcome yet, in the order in which they were made.
 *
 * A call ends once. A request is sent a second time only if that cannot do a thing twice: the daemon
 * said that it did nothing, or the call reads, or carries ids that the daemon knows again.
 */
export class Exchange extends Conversation {
  readonly #calls = new Map<number, Call>();
  readonly #tenures = new Set<Tenure>();
  readonly #follows = new Map<string, Followed>();
  /** The presence to announce on the next connection, by session. */
  readonly #present = new Map<unknown, Values>();
  #lastId = 0;
  /** False while nothing was said yet on a connection that was made again. */
  #isTrusted = true;
  #isDoubted = false;
  #isAsked = false;
  /** Set while calls without a time limit wait for a word of the daemon. */
  #silence: NodeJS.Timeout | undefined;
  #opened: { fulfil: () => void; reject: (error: unknown) => void; until: number } | undefined;

  #met: string | undefined;

  constructor(
    reach: Reach,
    hello: InitializeParams,
    private readonly onDaemon: (daemon: DaemonInfo) => void,
  ) {
    super(reach, hello);
  }

  protected override greeted({ instance_id, server_info }: Partial<InitializeResult>): void {
    if (instance_id === this.#met) return;
    this.#met = instance_id;
    this.onDaemon(server_info ?? {});
  }

  /** Make the first connection: one try, or as long as `patienceMs`. */
  ready(patienceMs: number): Promise<void> {
    return new Promise((fulfil, reject) => {
      this.#opened = { fulfil, reject, until: Date.now() + patienceMs };
      this.open();
    });
  }

  call(method: string, params: Values, options: CallOptions, timeoutMs: number): Promise<unknown> {
    return new Promise((fulfil, reject) => {
      options.signal?.throwIfAborted();
      if (this.isClosed) throw new ClientClosed("the client is closed");
      const call = new Call(++this.#lastId, method, params, options, timeoutMs, fulfil, reject);
      this.#calls.set(call.id, call);
      this.hold(true);
      this.#setDeadline(call);
      this.#listen(call);
      this.#offer(call);
      this.open();
    });
  }

  /** Subscribe over this connection. */
  follow(follow: Follow): void {
    if (this.isClosed) throw new ClientClosed("the client is closed");
    // One subscription for each session: a second one would end the first.
    if (this.#follows.has(follow.key)) throw new TypeError(`${follow.key}: is followed already`);
    const followed: Followed = { follow, id: 0, refusals: 0 };
    this.#follows.set(follow.key, followed);
    this.hold(true);
    follow.attach({
      send: (method, params) => void this.send({ id: ++this.#lastId, method, params }),
      again: () => this.#followLater(followed, 0),
      end: () => this.#unfollow(followed),
    });
    this.#request(followed);
    this.open();
  }

  begin(tenure: Tenure): void {
    this.#tenures.add(tenure);
  }

  end(tenure: Tenure): void {
    this.#tenures.delete(tenure);
  }

  protected begun(): void {
    this.#opened?.fulfil();
    this.#opened = undefined;
    for (const params of this.#present.values()) {
      this.send({ id: ++this.#lastId, method: "session/presence", params });
    }
    this.#isTrusted = !this.#isDoubted;
    this.#isAsked = false;
    this.hold(this.#isAwaited);
    for (const followed of this.#follows.values()) this.#request(followed);
    for (const call of this.#calls.values()) this.#offer(call);
  }

  protected override heard(): void {
    if (this.#isTrusted) return;
    this.#isTrusted = true;
    for (const call of this.#calls.values()) this.#offer(call);
  }

  protected isWanted(): boolean {
    // Presence is said again on the next connection, so there must be one.
    return this.#isAwaited || this.#present.size > 0 || this.#opened !== undefined;
  }

  protected answered(id: number, outcome: Outcome): void {
    if (this.#silence !== undefined) this.#listenForLife();
    const call = this.#calls.get(id);
    if (call === undefined) {
      const followed = [...this.#follows.values()].find((one) => one.id === id);
      // Any other answer is late: its call was given up, or nothing waits for the answer.
      if (followed !== undefined) this.#followAnswered(followed, outcome);
      return;
    }
    if (outcome.error !== undefined && this.#asksAgain(call, outcome.error)) return;
    if (outcome.error === undefined) this.#note(call);
    this.#settle(call, outcome);
  }

  protected told(method: string, params: unknown): void {
    if (this.#silence !== undefined) this.#listenForLife();
    if (method !== "$/progress") {
      this.#follows.get(keyOf(method, params))?.follow.told(method, params);
      return;
    }
    const { token, value } = params as Progress;
    const call = this.#calls.get(Number(token));
    if (call?.options.onProgress === undefined) return;
    // The daemon works on the call: the time for the answer begins anew.
    this.#setDeadline(call);
    try {
      call.options.onProgress(value.done, value.total, value.unit);
    } catch (error) {
      this.#abandon(call, error);
    }
  }

  protected lost(error: Error): void {
    this.#isDoubted = !this.isTurnedAway;
    const gone = new ConnectionLost(`the connection broke: ${error.message}`, false, error);
    for (const tenure of this.#tenures) tenure.lose(gone);
    this.#tenures.clear();
    for (const followed of this.#follows.values()) {
      clearTimeout(followed.delay);
      followed.id = 0;
      followed.follow.lost();
    }
    if (this.#opened !== undefined && Date.now() >= this.#opened.until) {
      const text = `cannot connect to sessiond: ${error.message}`;
      this.#opened.reject(error instanceof CannotStart ? error : new ConnectionLost(text, false, error));
      this.#opened = undefined;
    }
    for (const call of this.#calls.values()) {
      if (call.state !== "sent") continue;
      call.state = "queued";
      if (this.isTurnedAway) continue;
      call.losses += 1;
      call.isOutcomeUnknown = !call.isRead;
      if (call.resend === "never" || call.losses > RESENDS_MAX) {
        const text = `the connection broke before ${call.method} was answered (${error.message})`;
        const doubt = call.isOutcomeUnknown ? `; its outcome is unknown${call.doubt}` : "";
        this.#settle(call, { error: new ConnectionLost(`${text}${doubt}`, call.isOutcomeUnknown, error) });
      }
    }
  }

  protected failed(error: SessiondError): void {
    this.#opened?.reject(error);
    this.#opened = undefined;
    for (const tenure of this.#tenures) tenure.lose(error);
    for (const call of this.#calls.values()) {
      const isUnknown = error instanceof ClientClosed ? call.mayBeDone : call.isOutcomeUnknown;
      const Kind = error instanceof ClientClosed ? ClientClosed : error instanceof ForeignSocket ? ForeignSocket : undefined;
      const text = `${error.message}${call.doubt}`;
      this.#settle(call, { error: isUnknown && Kind !== undefined ? new Kind(text, true) : error });
    }
    for (const followed of this.#follows.values()) {
      this.#unfollow(followed);
      followed.follow.failed(error);
    }
  }

  get #isAwaited(): boolean {
    return this.#calls.size > 0 || this.#follows.size > 0;
  }

  #request(followed: Followed): void {
    if (!this.isConnected) return;
    followed.id = ++this.#lastId;
    this.send({ id: followed.id, ...followed.follow.request() });
  }

  #followAnswered(followed: Followed, outcome: Outcome): void {
    followed.id = 0;
    if (outcome.error === undefined) {
      followed.refusals = 0;
      followed.follow.answered(outcome.result);
    } else if (outcome.error.retryable) {
      this.#followLater(followed, retryAfter(outcome.error));
    } else {
      this.#unfollow(followed);
      followed.follow.failed(outcome.error);
    }
  }

  /** Subscribe again after a pause, unless the connection is lost before: the next one subscribes anyway. */
  #followLater(followed: Followed, leastMs: number): void {
    followed.refusals += 1;
    followed.delay = setTimeout(() => this.#request(followed), Math.max(leastMs, backoff(followed.refusals)));
  }

  #unfollow(followed: Followed): void {
    clearTimeout(followed.delay);
    this.#follows.delete(followed.follow.key);
    if (!this.#isAwaited) this.hold(false);
  }

  /** Send a call, if it may be sent now. */
  #offer(call: Call): void {
    if (!this.isConnected || call.state !== "queued" || call.delay !== undefined) return;
    if (this.#isTrusted || call.resend !== "never") {
      call.state = "sent";
      this.sendText(call.text);
    } else if (!this.#isAsked) {
      // A daemon that ends takes connections that it never serves: what may not be sent twice waits for a word.
      this.#isAsked = true;
      this.send({ id: ++this.#lastId, method: "server/ping" });
    }
  }

  /** Plan another try after a refusal that says that nothing was done, or that ids make safe. */
  #asksAgain(call: Call, error: RpcError): boolean {
    call.refusals += 1;
    const isStorage = error.is("storage_error");
    call.isOutcomeUnknown ||= isStorage && !call.isRead;
    const isSafe =
      error.is("overloaded") ||
      error.is("draining") ||
      (isStorage && error.retryable && call.resend === "keyed" && call.refusals <= STORAGE_RETRIES_MAX);
    if (!isSafe) return false;
    call.state = "queued";
    call.delay = setTimeout(
      () => {
        call.delay = undefined;
        this.#offer(call);
      },
      Math.max(retryAfter(error), backoff(call.refusals)),
    );
    return true;
  }

  #setDeadline(call: Call): void {
    clearTimeout(call.timer);
    call.timer = later(call.timeoutMs, () => this.#expire(call));
    if (call.timer === undefined && this.#silence === undefined) this.#listenForLife();
  }

  #expire(call: Call): void {
    const reason = this.isConnected ? "" : `; not connected: ${this.lastLoss?.message ?? "not yet"}`;
    const text = `no answer to ${call.method} in time${reason}${call.mayBeDone ? call.doubt : ""}`;
    this.#abandon(call, new Timeout(text, call.mayBeDone, this.lastLoss));
  }

  /** Ask a silent daemon whether it lives; give up calls without a time limit if it does not say so. */
  #listenForLife(): void {
    clearTimeout(this.#silence);
    this.#silence = undefined;
    const endless = [...this.#calls.values()].filter((call) => call.timer === undefined);
    if (endless.length === 0) return;
    this.#silence = setTimeout(() => {
      this.send({ id: ++this.#lastId, method: "server/ping" });
      this.#silence = setTimeout(() => {
        this.#silence = undefined;
        for (const call of endless) if (call.state !== "settled") this.#expire(call);
        this.#listenForLife();
      }, SILENCE_MS / 2);
    }, SILENCE_MS / 2);
  }

  #listen(call: Call): void {
    const { signal } = call.options;
    if (signal === undefined) return;
    const give = (): void => this.#abandon(call, signal.reason);
    signal.addEventListener("abort", give, { once: true });
    call.onSettled = () => signal.removeEventListener("abort", give);
  }

  /** Give up a call; the daemon is told, if the request was sent. */
  #abandon(call: Call, error: unknown): void {
    if (call.state === "sent") this.send({ method: "$/cancelRequest", params: { id: call.id } });
    this.#settle(call, { error });
  }

  #settle(call: Call, outcome: { result: unknown } | { error: unknown }): void {
    this.#calls.delete(call.id);
    if (!this.#isAwaited) this.hold(false);
    if (this.#calls.size === 0) this.#silence = void clearTimeout(this.#silence);
    call.settle(outcome);
  }

  /** Keep in mind what a connection carries, to say it again on the next one. */
  #note({ method, params }: Call): void {
    const session = params["session_id"];
    if (method === "session/presence" && "state" in params) {
      if (params["state"] === null) this.#present.delete(session);
      else this.#present.set(session, params);
    } else if (method === "session/close" || method === "session/delete") {
      this.#present.delete(session);
    }
  }
}

/** Return the key of the follow to which a notification belongs. */
function keyOf(method: string, params: unknown): string {
  const { session_id } = (params ?? {}) as { session_id?: unknown };
  return method.startsWith("session/") ? `session ${session_id}` : method.split("/", 1)[0] ?? "";
}
