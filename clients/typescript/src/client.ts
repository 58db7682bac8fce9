import type { InitializeParams } from "../protocol.js";
import type { CallOptions, Values } from "./call.js";
import { Exchange } from "./exchange.js";
import type { SubscribeParams } from "./arrivals.js";
import { Subscription } from "./feed.js";
import { CatalogFollow, type Follow, type FollowListener, SessionFollow } from "./follow.js";
import { Methods } from "./generated/methods.js";
import { type CatalogChanged, Hints, type StateChanged } from "./hints.js";
import { Lease, type LeaseParams } from "./lease.js";
import { TIMEOUT_MS } from "./limits.js";
import { Offer, type OfferOptions } from "./offer.js";
import { byPages } from "./pages.js";
import { Reach } from "./reach.js";
import type { Stream } from "./stream.js";
import { type DaemonInfo, warn } from "./versions.js";

export interface ConnectOptions {
  /** The socket of the daemon; without one, the daemon of `profile` and `home`, else the user's daemon. */
  socket?: string | undefined;
  profile?: string | undefined;
  home?: string | undefined;
  /** Refused with a TypeError: Node does not tell who listens, so the folder of the socket must be this user's alone. */
  peerUid?: undefined;
  /** The name that other clients see, and by which the daemon asks this client's own offer first. */
  clientId?: string | undefined;
  /** What this client may do; "write" if nothing is said. */
  access?: "write" | "read" | "status" | undefined;
  /** The command of the daemon, to start it; else SESSIOND_COMMAND of the environment, else `sessiond`. */
  command?: string | undefined;
  /** Whether to start a daemon where none listens; true unless a socket is named. */
  start?: boolean | undefined;
  /** Milliseconds for each call, with all its tries. Default 30,000; Infinity: as long as the daemon lives. */
  timeoutMs?: number | undefined;
  /** Milliseconds for which the first connection is tried. Default 0: one try. */
  connectTimeoutMs?: number | undefined;
  /** Told which program the daemon is, once for each daemon. Default: a warning of the process for one of another version. */
  onDaemon?: ((daemon: DaemonInfo) => void) | undefined;
}

/** Return a connected client of the user's daemon, which is started if none runs. */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  const client = new Client(options);
  try {
    await client.ready();
  } catch (error) {
    client.disconnect();
    throw error;
  }
  return client;
}

/** Calls, subscriptions, leases and offers, kept over lost connections. */
export class Client extends Methods {
  readonly #reach: Reach;
  readonly #hello: InitializeParams | undefined;
  readonly #exchange: Exchange;
  readonly #streams = new Set<Stream<unknown>>();
  readonly #timeoutMs: number;

  /** Prefer `connect`, which waits for the first connection. */
  constructor(private readonly options: ConnectOptions) {
    super();
    if (options.peerUid !== undefined) {
      throw new TypeError("peerUid: Node does not tell the user at the other end of a socket, so none can be permitted");
    }
    const { socket, profile, home, clientId, access } = options;
    this.#reach = new Reach({ socket, profile, home }, options.start ?? socket === undefined, options.command);
    const hello = {
      ...(clientId === undefined ? {} : { client_id: clientId }),
      ...(access === undefined ? {} : { access }),
    };
    this.#hello = Object.keys(hello).length === 0 ? undefined : hello;
    this.#exchange = new Exchange(this.#reach, hello, options.onDaemon ?? warn);
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
  }

  /** Wait for the first connection. */
  ready(): Promise<void> {
    return this.#exchange.ready(this.options.connectTimeoutMs ?? 0);
  }

  /** End every connection; calls that wait are rejected with ClientClosed, streams end. */
  disconnect(): void {
    this.#exchange.close();
    for (const stream of this.#streams) stream.close();
    this.#streams.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disconnect();
  }

  /**
   * Follow a session: from `after`, else from now on. Resolves once the daemon has answered.
   *
   * A subscription has a connection of its own, which is read only while an event is awaited.
   */
  subscribe(params: SubscribeParams, options: CallOptions = {}): Promise<Subscription> {
    return this.#start(new Subscription(this.#reach, this.#hello, params), options);
  }

  /** Follow hints that lists of sessions have changed. */
  subscribeCatalog(options: CallOptions = {}): Promise<Hints<CatalogChanged>> {
    return this.#start(new Hints<CatalogChanged>(this.#reach, this.#hello, "catalog", {}), options);
  }

  /** Follow hints that values of the state store have changed. */
  subscribeState(namespace?: string, options: CallOptions = {}): Promise<Hints<StateChanged>> {
    const params = namespace === undefined ? {} : { namespace };
    return this.#start(new Hints<StateChanged>(this.#reach, this.#hello, "state", params), options);
  }

  /**
   * Follow a session over the connection of the calls: from `after`, else from now on.
   *
   * Each session is followed once in a client. Events are given as fast as they come, to one listener.
   */
  follow(params: SubscribeParams, listener: FollowListener): SessionFollow {
    return this.#follow(new SessionFollow(params, listener));
  }

  /** Follow hints that lists of sessions have changed, over the connection of the calls. */
  followCatalog(onHint: (hint: CatalogChanged) => void): CatalogFollow {
    return this.#follow(new CatalogFollow(onHint));
  }

  /** Have a head for this client alone; the lease renews itself until it is released. */
  lease(params: LeaseParams): Promise<Lease> {
    return new Lease(this.#exchange, params, this.#timeoutMs).acquire();
  }

  /** Offer to write summaries, or to be asked before changes: what the daemon asks, each to be answered. */
  offer(offered: OfferOptions, options: CallOptions = {}): Promise<Offer> {
    return this.#start(new Offer(this.#reach, this.#hello, offered), options);
  }

  protected ask(method: string, params: object, options: CallOptions = {}): Promise<unknown> {
    const timeoutMs = options.timeoutMs ?? this.#timeoutMs;
    return byPages(params as Values, (given) => this.#exchange.call(method, given, options, timeoutMs));
  }

  #follow<F extends Follow>(follow: F): F {
    this.#exchange.follow(follow);
    return follow;
  }

  async #start<S extends Stream<any>>(stream: S, { timeoutMs, signal }: CallOptions): Promise<S> {
    signal?.throwIfAborted();
    const close = (): void => stream.close();
    signal?.addEventListener("abort", close, { once: true });
    this.#streams.add(stream);
    stream.onEnd = () => {
      this.#streams.delete(stream);
      signal?.removeEventListener("abort", close);
    };
    return stream.start(timeoutMs ?? this.#timeoutMs);
  }
}
