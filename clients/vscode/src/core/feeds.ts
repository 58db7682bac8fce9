import type { Client, SessionEvent, SessionFollow, SessiondError } from "sessiond-client";

import type { Connection } from "./connection.js";

export interface FeedListener {
  onEntry(event: SessionEvent): void;
  /** Told that the file is another one: every entry comes again, from the first one on. */
  onReplaced(): void;
  /** Told that the session can be followed no more. */
  onEnd(error: SessiondError): void;
}

/** One listener's part in a feed. */
export interface Watch {
  /** The place at which the listener joined: entries up to here are stored, later ones come. */
  seq: number;
  stop(): void;
}

/** The followed sessions of a window: views of one session share one subscription. */
export class Feeds {
  readonly #feeds = new Map<string, Feed>();

  constructor(private readonly connection: Connection) {}

  /** The number of subscriptions. */
  get size(): number {
    return this.#feeds.size;
  }

  async watch(sessionId: string, listener: FeedListener): Promise<Watch> {
    const client = await this.connection.client();
    let feed = this.#feeds.get(sessionId);
    if (feed === undefined) {
      feed = new Feed(client, sessionId, () => this.#feeds.delete(sessionId));
      this.#feeds.set(sessionId, feed);
    }
    return feed.join(listener);
  }
}

class Feed {
  #follow: SessionFollow | undefined;
  readonly #started: Promise<SessionFollow>;
  readonly #listeners = new Set<FeedListener>();
  #joined = 0;

  constructor(
    client: Client,
    private readonly sessionId: string,
    private readonly gone: () => void,
  ) {
    this.#started = this.#start(client);
  }

  async join(listener: FeedListener): Promise<Watch> {
    this.#joined += 1;
    let follow: SessionFollow;
    try {
      follow = await this.#started;
    } catch (error) {
      this.#leave();
      throw error;
    }
    // The place and the listener are one step: no entry falls between them.
    this.#listeners.add(listener);
    const stop = (): void => {
      if (this.#listeners.delete(listener)) this.#leave();
    };
    return { seq: follow.cursor?.seq ?? 0, stop };
  }

  async #start(client: Client): Promise<SessionFollow> {
    const session = { session_id: this.sessionId };
    // The newest entry proves later that the file is still the same one, which a number alone does not.
    const { entries } = await client.entries({ ...session, before_seq: Number.MAX_SAFE_INTEGER, limit: 1 });
    const [newest] = entries;
    const after = newest === undefined ? 0 : { seq: newest.seq, entry_id: newest.entry.id };
    const follow = client.follow(
      { ...session, after, signals: false },
      {
        onEvent: (event) => {
          if (event.method === "session/event") this.#tell((one) => one.onEntry(event.params));
          else if (event.method === "session/replaced") this.#tell((one) => one.onReplaced());
        },
        onEnd: (error) => {
          this.gone();
          this.#tell((one) => one.onEnd(error));
        },
      },
    );
    this.#follow = follow;
    await follow.started;
    return follow;
  }

  #leave(): void {
    this.#joined -= 1;
    if (this.#joined > 0) return;
    this.gone();
    this.#follow?.stop();
  }

  #tell(tell: (listener: FeedListener) => void): void {
    for (const listener of [...this.#listeners]) {
      try {
        tell(listener);
      } catch (error) {
        // A view that fails costs neither the connection nor another view its events.
        console.error("sessiond: a view failed:", (error as Error).name);
      }
    }
  }
}
