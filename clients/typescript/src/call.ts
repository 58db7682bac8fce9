import { randomBytes } from "node:crypto";

import { RpcError } from "./errors.js";
import { ALIASES, CHECKS, KEYED, READS, REQUEST_BYTES_MAX, SAFE, TOO_LARGE } from "./generated/facts.js";
import { encode } from "./json.js";

/** What is done, of the total (null: not known), in a unit. */
export type OnProgress = (done: number, total: number | null, unit: string) => void;

export interface CallOptions {
  /**
   * Milliseconds for all tries together; counted anew from each report of progress. Default 30,000. Infinity: as long as
   * the daemon says that it lives.
   */
  timeoutMs?: number | undefined;
  /** Gives the call up: the daemon is told, and the promise is rejected with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Told how far long work is. */
  onProgress?: OnProgress | undefined;
}

export type Values = Record<string, unknown>;

/**
 * What a lost connection means for a request: `never` sent twice; a `read`, which changes nothing that
 * a second time would change again; `keyed`, which the daemon recognises by ids and does once.
 */
export type Resend = "never" | "read" | "keyed";

const REPEATABLE = new Set([...READS, ...SAFE]);
const SUBSCRIBING = /^(session|catalog|state)\/(un)?subscribe$/;

/** One request and its outcome. */
export class Call {
  readonly params: Values;
  readonly resend: Resend;
  /** True if the daemon changes nothing for this call, also on a connection that is lost. */
  readonly isRead: boolean;
  /** What an error says that leaves the outcome open. */
  readonly doubt: string;
  readonly text: string;
  state: "queued" | "sent" | "settled" = "queued";
  losses = 0;
  refusals = 0;
  isOutcomeUnknown = false;
  timer: NodeJS.Timeout | undefined;
  /** Set while the daemon asked to wait before the next try. */
  delay: NodeJS.Timeout | undefined;
  /** Called at the end, whatever the end is. */
  onSettled: (() => void) | undefined;

  constructor(
    readonly id: number,
    readonly method: string,
    params: Values,
    readonly options: CallOptions,
    readonly timeoutMs: number,
    private readonly fulfil: (result: unknown) => void,
    private readonly reject: (error: unknown) => void,
  ) {
    const name = ALIASES[method] ?? method;
    if (SUBSCRIBING.test(name)) {
      // A subscription belongs to one connection, which is read as its events are wanted.
      throw new TypeError(`${name}: use subscribe(), subscribeCatalog() or subscribeState()`);
    }
    this.params = prepared(name, params);
    this.resend = resendOf(name, this.params);
    this.isRead = this.resend === "read" && !SAFE.includes(name) && name !== "session/create";
    const check = CHECKS[name];
    this.doubt = this.isRead || check === undefined ? "" : `; ${check} shows whether it was done`;
    const meta = options.onProgress === undefined ? {} : { _meta: { progress_token: id } };
    this.text = encode({ jsonrpc: "2.0", id, method, params: { ...this.params, ...meta } });
    const size = Buffer.byteLength(this.text);
    if (size > REQUEST_BYTES_MAX) {
      const data = { kind: "too_large", retryable: false, limit: REQUEST_BYTES_MAX, size };
      throw new RpcError({ code: TOO_LARGE, message: `a request of ${size} bytes`, data });
    }
  }

  /** True if the daemon may have changed something for the call, or may yet do so. */
  get mayBeDone(): boolean {
    return this.isOutcomeUnknown || (this.state === "sent" && !this.isRead);
  }

  /** End the call with its result or an error. */
  settle(outcome: { result: unknown } | { error: unknown }): void {
    clearTimeout(this.timer);
    clearTimeout(this.delay);
    this.onSettled?.();
    this.state = "settled";
    if ("error" in outcome) this.reject(outcome.error);
    else this.fulfil(outcome.result);
  }
}

function resendOf(name: string, params: Values): Resend {
  if (REPEATABLE.has(name)) return "read";
  switch (name) {
    case "session/append":
      return "keyed";
    case "session/prune":
    case "session/merge":
      if (params["dry_run"] === true) return "read";
      break;
    case "session/create":
      return params["if_exists"] === "open" && "session_id" in params ? "read" : "never";
    case "session/repair":
    case "retention/run":
      return params["dry_run"] === false ? "never" : "read";
    case "session/continue_recent":
      return params["cwd"] == null ? "read" : "never";
    case "session/export":
      return params["path"] == null ? "read" : "never";
    default:
  }
  return KEYED.includes(name) && isKeyed(params) ? "keyed" : "never";
}

function isKeyed(params: Values): boolean {
  return params["idempotency_key"] != null;
}

/** Return the params with what makes the call safe to send again, where the client adds that. */
function prepared(name: string, params: Values): Values {
  if (name === "session/append") return withIds(params);
  return name === "session/merge" && takesKey(params) ? { ...params, idempotency_key: newId() } : params;
}

/** Return whether a merge stores a turn here, and has no key yet. */
function takesKey(merge: Values): boolean {
  return (merge["into"] ?? "this") === "this" && merge["dry_run"] !== true && !isKeyed(merge);
}

function newId(): string {
  return randomBytes(16).toString("hex");
}

/** Return the params of an append, each entry under an id of its own. */
function withIds(params: Values): Values {
  if (isKeyed(params)) return params;
  const { message, ...rest } = params;
  if (message !== undefined && !("entry" in rest) && !("entries" in rest)) {
    return { ...rest, entry: withId({ type: "message", message }) };
  }
  const { entry, entries } = params;
  return {
    ...params,
    ...(entry === undefined ? {} : { entry: withId(entry) }),
    ...(Array.isArray(entries) ? { entries: entries.map(withId) } : {}),
  };
}

function withId(entry: unknown): unknown {
  // What is no object goes on as it is: the daemon says what is wrong with it.
  if (typeof entry !== "object" || entry === null || Array.isArray(entry)) return entry;
  const { id, type, ...rest } = entry as Values;
  if (id != null) return entry;
  return { ...(type === undefined ? {} : { type }), id: newId(), ...rest };
}
