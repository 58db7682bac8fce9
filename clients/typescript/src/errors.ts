import type { ErrorKind, RpcError as Refusal } from "../protocol.js";

/** The base of every error that this package raises on purpose. */
export class SessiondError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A refusal of the daemon. `kind` names the reason; `data` has what is needed to decide. */
export class RpcError extends SessiondError {
  readonly code: number;
  readonly kind: string;
  readonly data: { kind: string; retryable: boolean } & Record<string, unknown>;

  constructor(error: { code: number; message: string; data?: unknown }) {
    const data = typeof error.data === "object" && error.data !== null ? error.data : {};
    const kind = "kind" in data && typeof data.kind === "string" ? data.kind : "";
    super(`${kind || "error"} (${error.code}): ${error.message}`);
    this.code = error.code;
    this.kind = kind;
    this.data = { ...data, kind, retryable: "retryable" in data && data.retryable === true };
  }

  get retryable(): boolean {
    return this.data.retryable;
  }

  /** Tell whether the error is of a kind, and type `data` accordingly. */
  is<K extends ErrorKind>(kind: K): this is RpcError & { kind: K; data: Refusal<K>["data"] } {
    return this.kind === kind;
  }
}

/** Lack of an answer. With `outcomeUnknown` the daemon may have done what was asked. */
class Unanswered extends SessiondError {
  readonly outcomeUnknown: boolean;

  constructor(message: string, outcomeUnknown: boolean, cause?: unknown) {
    super(message, { cause });
    this.outcomeUnknown = outcomeUnknown;
  }
}

/** Lack of a connection. With `outcomeUnknown` the daemon may have done what was asked. */
export class ConnectionLost extends Unanswered {}

/** Refusal of this client to send to a socket at which another user may listen; the message says why, and what to do. */
export class ForeignSocket extends ConnectionLost {}

/** Lack of an answer in time. With `outcomeUnknown` the daemon may have acted, or may yet act. */
export class Timeout extends Unanswered {}

/** Bytes that are not this protocol: another program's socket, or another version. */
export class ProtocolViolation extends SessiondError {}

/** End of the client before the call was answered. With `outcomeUnknown` the daemon may have done what was asked. */
export class ClientClosed extends Unanswered {
  constructor(message: string, outcomeUnknown = false) {
    super(message, outcomeUnknown);
  }
}

/** End of a lease: not renewed in time, ended by the daemon, or gone with its connection. */
export class LeaseLost extends SessiondError {}

/** Lack of a daemon: none listens, and none could be started. */
export class CannotStart extends SessiondError {}
