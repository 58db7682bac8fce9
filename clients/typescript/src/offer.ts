import type { ClientRequests, InitializeParams, InitializeResult } from "../protocol.js";
import { ProtocolViolation } from "./errors.js";
import { SUMMARY_BYTES_MAX } from "./generated/facts.js";
import type { Reach } from "./reach.js";
import { Stream } from "./stream.js";

const DECLINED = { code: -32000, message: "another client may do it" };
const FAILED = { code: -32000, message: "the client failed" };

export type Purpose = "compaction" | "merge" | "squash" | "branch";
export type Hook = "before_compact" | "before_fork" | "before_branch" | "before_switch";

/** What a client offers to the daemon; `true` as `summarize` means compactions, as `hooks` every hook. */
export interface OfferOptions {
  summarize?: boolean | Purpose[];
  hooks?: boolean | Hook[];
}

type Request = { [M in keyof ClientRequests]: { method: M; params: ClientRequests[M]["params"] } }[keyof ClientRequests];

/** A request of the daemon, to be answered once; an answer after its withdrawal is dropped. */
export class Asked {
  readonly #abort = new AbortController();
  #isOpen = true;

  constructor(
    /** The method and its parameters, told apart by `method`. */
    readonly request: Request,
    private readonly reply: (message: object) => void,
  ) {}

  get method(): Request["method"] {
    return this.request.method;
  }

  get params(): Request["params"] {
    return this.request.params;
  }

  /** Aborted when the daemon no longer waits for the answer. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Answer with a summary; before a branch or a compaction, it replaces a written one. A label is for that of a branch. */
  answer(summary: string, label?: string): void {
    if (summary.trim() === "") throw new TypeError("a blank summary is none: passOn() leaves it to other clients");
    if (Buffer.byteLength(summary) > SUMMARY_BYTES_MAX) {
      throw new TypeError(`a summary has at most ${SUMMARY_BYTES_MAX} bytes`);
    }
    this.#end({ result: label === undefined ? { summary } : { summary, label } });
  }

  /** Forbid the change that the daemon asked about. */
  veto(reason = ""): void {
    if (this.method === "client/summarize") {
      throw new TypeError("nothing is about to happen here: passOn() leaves the summary to other clients");
    }
    this.#end({ result: { veto: reason } });
  }

  /** Agree to the change; leave a summary to the next client. */
  passOn(): void {
    this.#end(this.method === "client/summarize" ? { error: DECLINED } : { result: {} });
  }

  /** Say that this client failed, so that the daemon goes on at once. */
  fail(): void {
    this.#end({ error: FAILED });
  }

  /** Note that the daemon no longer waits. */
  withdraw(): void {
    this.#isOpen = false;
    this.#abort.abort();
  }

  #end(message: object): void {
    if (this.#abort.signal.aborted) return;
    if (!this.#isOpen) throw new TypeError("the request is answered already");
    this.#isOpen = false;
    this.reply(message);
  }
}

/** What the daemon asks this client; made anew on every connection, over restarts of the daemon. */
export class Offer extends Stream<Asked> {
  readonly #open = new Map<unknown, Asked>();

  constructor(
    reach: Reach,
    hello: InitializeParams | undefined,
    private readonly options: OfferOptions,
  ) {
    // Always read: a withdrawal is noticed at once.
    super(reach, { ...hello, capabilities: { ...options } }, false);
    if (!options.summarize && !options.hooks) throw new TypeError("offer something: summarize, or hooks");
  }

  protected begun(): void {}

  protected override greeted({ capabilities }: InitializeResult): void {
    const { summarize, hooks } = this.options;
    const known = new Set<string>([...(capabilities.hooks ?? []), ...(capabilities.summarize_purposes ?? [])]);
    const wanted = [...(Array.isArray(summarize) ? summarize : []), ...(Array.isArray(hooks) ? hooks : [])];
    const missing = wanted.filter((one) => !known.has(one));
    if (missing.length > 0) {
      this.failed(new ProtocolViolation(`this daemon asks no client for ${missing.join(", ")}`));
    } else {
      this.subscribed();
    }
  }

  protected override asked(id: string | number | null, method: string, params: unknown): void {
    const asked = new Asked({ method, params } as Request, (message) => {
      this.#open.delete(id);
      this.send({ id, ...message });
    });
    this.#open.set(id, asked);
    this.put(asked);
  }

  protected told(method: string, params: unknown): void {
    if (method !== "$/cancelRequest") return;
    const { id } = params as { id: unknown };
    const asked = this.#open.get(id);
    this.#open.delete(id);
    if (asked !== undefined) this.#withdraw(asked);
  }

  protected lost(): void {
    const open = [...this.#open.values()];
    this.#open.clear();
    for (const asked of open) this.#withdraw(asked);
  }

  #withdraw(asked: Asked): void {
    this.withdraw(asked);
    asked.withdraw();
  }
}
