import type { InitializeParams, Notification, WatchResult } from "../protocol.js";
import type { Reach } from "./reach.js";
import { Stream } from "./stream.js";

const SUBSCRIBE_ID = 1;

export type CatalogChanged = Extract<Notification, { method: "catalog/changed" }>;
export type StateChanged = Extract<Notification, { method: "state/changed" }>;
export type Hint = CatalogChanged | StateChanged;

/** The hints of one area as they arrive; a hint of "many" makes up for those that a lost connection may have cost. */
export class HintArrivals<T extends Hint> {
  #revision: number | undefined;

  constructor(
    readonly area: "catalog" | "state",
    readonly params: { namespace?: string },
    private readonly give: (hint: T) => void,
  ) {}

  /** The newest revision known. */
  get revision(): number | undefined {
    return this.#revision;
  }

  /** Take the answer to a subscription. */
  begin({ revision }: WatchResult): void {
    const known = this.#revision;
    this.#revision = revision;
    // Namespaces become durable in any order: the revision of the state store does not show what was missed.
    if (known !== undefined && (this.area === "state" || revision !== known)) {
      const many = { session_id: null, change: "many", ...this.params, revision };
      this.give({ jsonrpc: "2.0", method: `${this.area}/changed`, params: many } as unknown as T);
    }
  }

  /** Take a notification; one of another area is left out. */
  take(method: string, params: unknown): void {
    if (method !== `${this.area}/changed`) return;
    this.#revision = (params as { revision: number }).revision;
    this.give({ jsonrpc: "2.0", method, params } as T);
  }
}

/** Hints that something has changed; what is true is what `list` and `stateGet` say. */
export class Hints<T extends Hint> extends Stream<T> {
  readonly #arrivals: HintArrivals<T>;

  constructor(
    reach: Reach,
    hello: InitializeParams | undefined,
    area: "catalog" | "state",
    params: { namespace?: string },
  ) {
    super(reach, hello, true);
    this.#arrivals = new HintArrivals<T>(area, params, (hint) => this.put(hint));
  }

  /** The newest revision known. */
  get revision(): number | undefined {
    return this.#arrivals.revision;
  }

  protected begun(): void {
    const { area, params } = this.#arrivals;
    this.send({ id: SUBSCRIBE_ID, method: `${area}/subscribe`, params });
  }

  protected override done(_id: number, result: unknown): void {
    this.#arrivals.begin(result as WatchResult);
    this.subscribed();
  }

  protected told(method: string, params: unknown): void {
    this.#arrivals.take(method, params);
  }

  protected lost(): void {}
}
