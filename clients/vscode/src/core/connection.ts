import { Client, type ConnectOptions } from "sessiond-client";

/** The one connection of a window: made at the first use, and again by the client whenever it breaks. */
export class Connection {
  #client: Promise<Client> | undefined;
  #made: Client | undefined;

  constructor(private readonly options: () => ConnectOptions) {}

  /** Return the connected client; a failure is not kept, so the next call tries again. */
  client(): Promise<Client> {
    this.#client ??= this.#connect();
    return this.#client;
  }

  dispose(): void {
    this.#made?.disconnect();
    this.#client = undefined;
  }

  async #connect(): Promise<Client> {
    try {
      const client = new Client(this.options());
      this.#made = client;
      await client.ready();
      return client;
    } catch (error) {
      this.dispose();
      throw error;
    }
  }
}
