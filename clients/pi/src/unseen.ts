/** The entries that other programs added to the session's file and pi has not read. */

const NOTICE =
  "Another program added entries to this session. pi and its model do not see them until `/sessiond reload`; " +
  "pi goes on from its own last entry.";

/** A count of the entries; the user is told of the first one only. */
export class Unseen {
  readonly #ids = new Set<string>();
  #isTold = false;

  /** Count an entry; return the notice, once. */
  add(id: string): string | undefined {
    this.#ids.add(id);
    if (this.#isTold) return undefined;
    this.#isTold = true;
    return NOTICE;
  }

  /** Forget the entries: the daemon tells the whole log again. */
  clear(): void {
    this.#ids.clear();
  }

  /** Return the text of pi's status line. */
  badge(): string {
    return `sessiond: ${this.#ids.size} unread`;
  }

  /** Return the line for the command `/sessiond`; none if pi has read every entry. */
  lines(): string[] {
    return this.#ids.size === 0 ? [] : [`${this.#ids.size} entries of other programs are not read: /sessiond reload`];
  }
}
