const PAUSE_MS = 50;
/** A refresh is made again after so many times the time that the last one took. */
const PAUSE_FACTOR = 5;

/** A refresh that is asked for often and made seldom: a pause, and never two at once. */
export class Refresher {
  #timer: NodeJS.Timeout | undefined;
  #isRunning = false;
  #isWanted = false;
  #isDisposed = false;
  #pauseMs = PAUSE_MS;

  constructor(
    private readonly refresh: () => Promise<void>,
    private readonly failed: (error: unknown) => void,
  ) {}

  request(): void {
    this.#isWanted = true;
    if (this.#isRunning || this.#timer !== undefined || this.#isDisposed) return;
    this.#timer = setTimeout(() => void this.#run(), this.#pauseMs);
  }

  dispose(): void {
    this.#isDisposed = true;
    clearTimeout(this.#timer);
  }

  async #run(): Promise<void> {
    this.#timer = undefined;
    this.#isRunning = true;
    this.#isWanted = false;
    const began = performance.now();
    try {
      await this.refresh();
    } catch (error) {
      if (!this.#isDisposed) this.failed(error);
    }
    this.#pauseMs = Math.max(PAUSE_MS, (performance.now() - began) * PAUSE_FACTOR);
    this.#isRunning = false;
    if (this.#isWanted) this.request();
  }
}
