import type {
  After,
  AnyEntry,
  Notification,
  Notifications,
  Params,
  Present,
  Result,
  SessionEvent,
} from "../protocol.js";

/** The parameters of a subscription; a number as `after` is a `seq` alone, which fits for 0 only. */
export type SubscribeParams = Omit<Params<"session/subscribe">, "after"> & { after?: After | 0 | null };

/** The answer to a request for a flush: every entry up to `seq` came before. */
export interface Flushed {
  jsonrpc: "2.0";
  method: "session/flushed";
  params: { session_id: string; seq: number };
}

/** A notification about the session, as the protocol has it, or the answer to a request for a flush. */
export type SessionNotification = Exclude<
  Notification,
  { method: "catalog/changed" | "state/changed" | "server/draining" | "$/progress" | "$/cancelRequest" }
> | Flushed;

type Reason = Notifications["session/replaced"]["reason"];

/** The events of a session as they arrive, over any number of subscriptions: each entry once, in order. */
export class Arrivals {
  readonly #params: Params<"session/subscribe">;
  #place: After | undefined;
  #isPresenceTold = false;

  constructor(
    params: SubscribeParams,
    private readonly give: (event: SessionNotification) => void,
  ) {
    const { after, ...rest } = params;
    this.#params = rest;
    this.#place = after === 0 ? { seq: 0 } : (after ?? undefined);
  }

  get sessionId(): string {
    return this.#params.session_id;
  }

  /** The place behind the last entry; undefined before the first answer to a subscription from now on. */
  get place(): After | undefined {
    return this.#place;
  }

  /** Return the parameters of a subscription that goes on at the place. */
  params(): Params<"session/subscribe"> {
    return { ...this.#params, ...(this.#place === undefined ? {} : { after: wireCursor(this.#place) }) };
  }

  /** Take the answer to a subscription; events come behind the answer. */
  begin(answer: Result<"session/subscribe">): void {
    const { epoch, seq, replaced } = answer;
    if (replaced != null) {
      this.#replace({ session_id: this.sessionId, epoch, reason: replaced as Reason });
    } else {
      this.#place ??= { seq, epoch };
    }
    const clients: Present[] = answer.clients ?? [];
    if (clients.length > 0 || this.#isPresenceTold) {
      this.take({ jsonrpc: "2.0", method: "session/presence", params: { session_id: this.sessionId, clients } });
    }
  }

  /** Take a notification; an entry that was given already is left out. */
  take(event: SessionNotification): void {
    switch (event.method) {
      case "session/event":
        if (this.#place !== undefined && event.params.seq <= this.#place.seq) return;
        this.#place = cursorOf(event.params);
        break;
      case "session/replaced":
        this.#replace(event.params);
        return;
      case "session/presence":
        this.#isPresenceTold = event.params.clients.length > 0;
        break;
    }
    this.give(event);
  }

  #replace(params: Notifications["session/replaced"]): void {
    // Told by the answer and by a notification, a replacement is one event all the same.
    if (this.#place?.seq === 0 && this.#place.epoch === params.epoch) return;
    this.#place = { seq: 0, epoch: params.epoch };
    this.give({ jsonrpc: "2.0", method: "session/replaced", params });
  }
}

/** Return the place behind an event. */
export function cursorOf({ seq, epoch, entry }: SessionEvent): After {
  const { id } = entry as AnyEntry;
  return { seq, epoch, entry_id: id };
}

/** Return the cursor to send: the start alone, or one proof that the daemon checks. */
function wireCursor({ seq, entry_id, epoch }: After): After {
  if (seq === 0) return { seq: 0 };
  if (entry_id !== undefined) return { seq, entry_id };
  return epoch === undefined ? { seq } : { seq, epoch };
}
