import type { InitializeParams, Notification, WatchResult } from "../protocol.js";
import type { Reach } from "./reach.js";
import { Stream } from "./stream.js";

const SUBSCRIBE_ID = 1;

export type CatalogChanged = Extract<Notification, { method: "catalog/changed" }>;
export type StateChanged = Extract<Notification, { method: "state/changed" }>;

/**
 * Hints that something has changed; what is true is what `list` and `stateGet` say.
 *
 * A hint that may have been missed while there was no connection is made up for by one of "many".
 */
export class Hints<T extends CatalogChanged | StateChanged> extends Stream<T> {
  #revision: number | undefined;

  constructor(
    reach: Reach,
    hello: InitializeParams | undefined,
    private readonly area: "catalog" | "state",
    private readonly params: { namespace?: string },
  ) {
    super(reach, hello, true);
  }

  /** The newest revision known. */
  get revision(): number | undefined {
    return this.#revision;
  }

  protected begun(): void {
    this.send({ id: SUBSCRIBE_ID, method: `${this.area}/subscribe`, params: this.params });
  }

  protected override done(_id: number, result: unknown): void {
    const { revision } = result as WatchResult;
    const known = this.#revision;
    this.#revision = revision;
    // Namespaces become durable in any order: the revision of the state store does not show what was missed.
    if (known !== undefined && (this.area === "state" || revision !== known)) {
      const many = { session_id: null, change: "many", ...this.params, revision };
      this.put({ jsonrpc: "2.0", method: `${this.area}/changed`, params: many } as unknown as T);
    }
    this.subscribed();
  }

  protected told(method: string, params: unknown): void {
    if (method !== `${this.area}/changed`) return;
    this.#revision = (params as { revision: number }).revision;
    this.put({ jsonrpc: "2.0", method, params } as T);
  }

  protected lost(): void {}
}
