import type { InitializeParams } from "../protocol.js";
import { Conversation, type Outcome } from "./conversation.js";
import { ClientClosed, ProtocolViolation, type RpcError, type SessiondError, Timeout } from "./errors.js";
import type { Reach } from "./reach.js";
import { later } from "./timers.js";

/**
 * Items that a consumer reads one by one, over any number of connections of their own.
 *
 * A stream ends when it is closed, or with one error; a lost connection is no error. With `isLazy` the
 * connection is read only while an item is awaited: a slow consumer then holds one read of the socket.
 */
export abstract class Stream<T> extends Conversation implements AsyncIterableIterator<T> {
  /** Called once the stream is over. */
  onEnd: (() => void) | undefined;
  #ready: T[] = [];
  #error: SessiondError | undefined;
  #waiting: { fulfil: (item: IteratorResult<T>) => void; reject: (error: unknown) => void } | undefined;
  #started: { fulfil: () => void; reject: (error: unknown) => void } | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #isStarted = false;

  constructor(
    reach: Reach,
    hello: InitializeParams | undefined,
    private readonly isLazy: boolean,
  ) {
    super(reach, hello);
  }

  /** Subscribe; resolves with the daemon's first answer. */
  start(timeoutMs: number): Promise<this> {
    return new Promise((fulfil, reject) => {
      this.#started = { fulfil: () => fulfil(this), reject };
      this.#deadline = later(timeoutMs, () => {
        const reason = this.lastLoss === undefined ? "" : `: ${this.lastLoss.message}`;
        this.failed(new Timeout(`not subscribed in time${reason}`, false, this.lastLoss));
      });
      this.open();
    });
  }

  next(): Promise<IteratorResult<T>> {
    if (this.#waiting !== undefined) throw new TypeError("the next item is awaited already");
    return new Promise((fulfil, reject) => {
      this.#waiting = { fulfil, reject };
      if (!this.#give()) {
        this.hold(true);
        this.read(true);
        this.open();
      }
    });
  }

  /** End the stream; `for await` calls this when the loop is left. */
  return(): Promise<IteratorResult<T>> {
    this.close();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  /** Take an item that is about to be handed to the consumer. */
  protected taken(_item: T): void {}

  protected put(item: T): void {
    this.#ready.push(item);
    this.#give();
  }

  /** Remove an item that the consumer has not seen; false if it was handed out. */
  protected withdraw(item: T): boolean {
    const index = this.#ready.indexOf(item);
    if (index >= 0) this.#ready.splice(index, 1);
    return index >= 0;
  }

  protected subscribed(): void {
    clearTimeout(this.#deadline);
    this.#isStarted = true;
    this.#started?.fulfil();
    this.#started = undefined;
    this.#rest();
  }

  protected answered(id: number, outcome: Outcome): void {
    if (outcome.error === undefined) this.done(id, outcome.result);
    else if (outcome.error.retryable) this.hangUp(outcome.error);
    else this.failed(outcome.error);
  }

  /** Take the result of one of the stream's own requests. */
  protected done(id: number, _result: unknown): void {
    throw new ProtocolViolation(`an answer to ${id}, which was not asked`);
  }

  protected isWanted(): boolean {
    return this.#error === undefined && (!this.#isStarted || !this.isLazy || this.#waiting !== undefined);
  }

  protected failed(error: SessiondError | RpcError): void {
    clearTimeout(this.#deadline);
    if (error instanceof ClientClosed && this.#error === undefined) this.#ready = [];
    this.#error ??= error;
    this.#started?.reject(error);
    this.#started = undefined;
    this.close();
    this.#give();
    this.onEnd?.();
  }

  /** Hand an item, or the end, to the consumer that waits; false if there is nothing to hand. */
  #give(): boolean {
    const waiting = this.#waiting;
    if (waiting === undefined) return false;
    const [item] = this.#ready;
    if (this.#ready.length > 0) {
      this.#ready.shift();
      this.#waiting = undefined;
      this.taken(item as T);
      waiting.fulfil({ done: false, value: item as T });
      this.#rest();
      return true;
    }
    if (this.#error === undefined) return false;
    this.#waiting = undefined;
    const error = this.#error;
    this.#error = new ClientClosed("the stream is over");
    if (error instanceof ClientClosed) waiting.fulfil({ done: true, value: undefined });
    else waiting.reject(error);
    return true;
  }

  /** Stop reading where no item is awaited. */
  #rest(): void {
    if (this.isLazy && this.#waiting === undefined && this.#isStarted) {
      this.read(false);
      this.hold(false);
    }
  }
}
