import type { Result } from "sessiond-client";

import type { Connection } from "./connection.js";
import type { Feeds, Watch } from "./feeds.js";
import { Refresher } from "./refresher.js";

type Usage = Result<"session/usage">;

/** The tokens of the one session that is shown; the figure follows the session. */
export class UsageFollow {
  #sessionId: string | undefined;
  #watch: Watch | undefined;
  readonly #refresher: Refresher;

  constructor(
    private readonly connection: Connection,
    private readonly feeds: Feeds,
    private readonly changed: (usage: Usage | undefined) => void,
  ) {
    this.#refresher = new Refresher(
      () => this.#refresh(),
      () => changed(undefined),
    );
  }

  /** Show the tokens of a session, or of none. */
  async show(sessionId: string | undefined): Promise<void> {
    if (sessionId === this.#sessionId) return;
    this.#sessionId = sessionId;
    this.#watch?.stop();
    this.#watch = undefined;
    this.changed(undefined);
    if (sessionId === undefined) return;
    const refresh = (): void => this.#refresher.request();
    const watch = await this.feeds.watch(sessionId, {
      onEntry: refresh,
      onReplaced: refresh,
      onEnd: () => this.changed(undefined),
    });
    if (this.#sessionId !== sessionId) return watch.stop();
    this.#watch = watch;
    refresh();
  }

  dispose(): void {
    this.#refresher.dispose();
    this.#watch?.stop();
  }

  async #refresh(): Promise<void> {
    const sessionId = this.#sessionId;
    if (sessionId === undefined) return;
    const usage = await (await this.connection.client()).usage({ session_id: sessionId });
    if (this.#sessionId === sessionId) this.changed(usage);
  }
}

/** Return a number of tokens in few characters: 950, 12.3k, 1.2M. */
export function shortNumber(count: number): string {
  if (count < 1000) return String(count);
  const [value, unit] = count < 999_500 ? [count / 1000, "k"] : [count / 1_000_000, "M"];
  return `${value < 99.95 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)}${unit}`;
}
