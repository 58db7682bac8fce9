import type { Socket } from "node:net";

import type { InitializeParams, InitializeResult } from "../protocol.js";
import { ClientClosed, ForeignSocket, ProtocolViolation, RpcError, type SessiondError } from "./errors.js";
import { encode, Lines } from "./json.js";
import { BACKOFF_FIRST_MS, BACKOFF_LONGEST_MS } from "./limits.js";
import type { Reach } from "./reach.js";

const HELLO_ID = 0;

/** An answer of the daemon: its result, or its refusal. */
export type Outcome = { result: unknown; error?: never } | { error: RpcError; result?: never };

interface Message {
  id?: string | number | null;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: { code: number; message: string; data?: unknown };
}

/** Return the pause before a try (the first is 1): doubled, capped, less up to half of itself. */
export function backoff(attempt: number): number {
  const longest = Math.min(BACKOFF_LONGEST_MS, BACKOFF_FIRST_MS * 2 ** Math.min(attempt - 1, 16));
  return longest * (0.5 + 0.5 * Math.random());
}

/** Return the milliseconds that a refusal asks to wait; 0 if the refusal names none. */
export function retryAfter(error: RpcError): number {
  const after = error.data["retry_after_ms"];
  return typeof after === "number" ? after : 0;
}

/**
 * One side of a connection that is made again whenever the connection breaks.
 *
 * A connection is one life: `begun`, any number of messages, then `lost`. Each conversation connects
 * when `open` is called, and again after a loss as long as something `isWanted`.
 */
export abstract class Conversation {
  /** The reason why there is no connection, after a loss. */
  protected lastLoss: Error | undefined;
  /** True once `close` was called. */
  protected isClosed = false;
  /** True if the daemon took nothing of what was sent on the connection: one connection too many. */
  protected isTurnedAway = false;
  #socket: Socket | undefined;
  #isOpening = false;
  #failures = 0;
  #isHeard = false;
  #retryAfter = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly reach: Reach,
    private readonly hello: InitializeParams | undefined,
  ) {}

  protected abstract begun(): void;
  protected abstract isWanted(): boolean;
  protected abstract answered(id: number, outcome: Outcome): void;
  protected abstract told(method: string, params: unknown): void;
  protected abstract lost(error: Error): void;
  /** Take the end of all hope: the daemon refused this client for good. */
  protected abstract failed(error: SessiondError): void;
  /** Take the daemon's first message on a connection. */
  protected heard(): void {}
  protected greeted(_answer: InitializeResult): void {}

  protected asked(id: string | number | null, _method: string, _params: unknown): void {
    this.send({ id, error: { code: -32601, message: "this client offered nothing" } });
  }

  protected get isConnected(): boolean {
    return this.#socket !== undefined;
  }

  /** Connect, unless there is a connection, or one is being made or waited for. */
  protected open(): void {
    if (!this.isConnected && !this.#isOpening && this.#timer === undefined && !this.isClosed) {
      void this.#connect();
    }
  }

  /** Send a message; false if there is no connection. */
  protected send(message: object): boolean {
    return this.sendText(encode({ jsonrpc: "2.0", ...message }));
  }

  protected sendText(text: string): boolean {
    if (this.#socket === undefined) return false;
    this.#socket.write(`${text}\n`);
    return true;
  }

  /** Read, or leave what comes with the kernel, and the daemon. */
  protected read(wanted: boolean): void {
    if (wanted) this.#socket?.resume();
    else this.#socket?.pause();
  }

  /** Keep the process alive for this connection, or not. */
  protected hold(wanted: boolean): void {
    if (wanted) {
      this.#socket?.ref();
      this.#timer?.ref();
    } else {
      this.#socket?.unref();
      this.#timer?.unref();
    }
  }

  /** End the connection, and make the next one when the daemon wants one, not earlier. */
  protected hangUp(error: Error): void {
    this.#retryAfter = error instanceof RpcError ? retryAfter(error) : 0;
    this.#lose(error);
  }

  /** End the conversation. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const socket = this.#socket;
    this.#socket = undefined;
    // What was written is still sent; the daemon sees the end behind it.
    socket?.destroySoon();
    this.failed(new ClientClosed("the client was closed before the answer"));
  }

  async #connect(): Promise<void> {
    this.#isOpening = true;
    let socket: Socket;
    try {
      socket = await this.reach.connect();
    } catch (error) {
      this.#isOpening = false;
      // Another user does not become this one by waiting.
      if (error instanceof ForeignSocket) this.failed(error);
      this.#lose(error as Error);
      return;
    }
    this.#isOpening = false;
    if (this.isClosed) {
      socket.destroy();
      return;
    }
    this.#socket = socket;
    const lines = new Lines();
    let why: Error | undefined;
    socket.on("error", (error) => (why = error));
    socket.on("close", () => {
      if (this.#socket === socket) this.#lose(why ?? new Error("the daemon closed the connection"));
    });
    socket.on("data", (chunk: Buffer) => {
      try {
        for (const message of lines.take(chunk)) {
          if (this.#socket !== socket) return;
          this.#take(message as Message);
        }
      } catch (error) {
        if (this.#socket === socket) this.#lose(error as Error);
      }
    });
    if (this.hello !== undefined) this.send({ id: HELLO_ID, method: "initialize", params: this.hello });
    this.begun();
  }

  #take(message: Message): void {
    if (!this.#isHeard) {
      this.#isHeard = true;
      this.heard();
    }
    if (message.method !== undefined) {
      if (message.id === undefined) this.told(message.method, message.params);
      else this.asked(message.id, message.method, message.params);
      return;
    }
    const outcome: Outcome =
      message.error === undefined ? { result: message.result } : { error: new RpcError(message.error) };
    if (message.id === HELLO_ID) {
      if (outcome.error === undefined) this.greeted(outcome.result as InitializeResult);
      else if (outcome.error.retryable) this.hangUp(outcome.error);
      else this.failed(outcome.error);
    } else if (typeof message.id === "number") {
      this.answered(message.id, outcome);
    } else if (outcome.error?.retryable) {
      // An answer to no request: which frame was meant is not known, so no other answer is sure to come.
      this.isTurnedAway = outcome.error.data["closing"] === true;
      this.hangUp(outcome.error);
    } else {
      throw new ProtocolViolation("an answer without an id of this client", { cause: outcome.error });
    }
  }

  #lose(error: Error): void {
    this.#socket?.destroy();
    this.#socket = undefined;
    // A daemon that is full accepts and closes at once: only a connection that was of use ends the backoff.
    const wasUseful = this.#isHeard && !(error instanceof RpcError);
    this.#failures = wasUseful ? 1 : this.#failures + 1;
    this.#isHeard = false;
    this.lastLoss = error;
    this.lost(error);
    this.isTurnedAway = false;
    if (this.isClosed) return;
    const pause = Math.max(backoff(this.#failures), this.#retryAfter);
    this.#retryAfter = 0;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.isWanted()) this.open();
    }, pause);
    if (!this.isWanted()) this.#timer.unref();
  }
}
