// The TypeScript client as a command of the conformance kit (tests/conformance/README.md):
//
//     node tests/interop/conformance_typescript.mjs PATH_OF_THE_BUILT_CLIENT [follows]
//
// With `follows`, subscriptions share the connection of the calls.
import { carryOut } from "./node/steps.mjs";

const { connect, RpcError } = await import(process.argv[2]);
const isFollowing = process.argv[3] === "follows";

/** A followed session, with the methods of a stream. */
class Followed {
  #events = [];
  #wanted;

  constructor(client, params) {
    this.client = client;
    this.session_id = params.session_id;
    const put = (event) => {
      this.#events.push(event);
      this.#wanted?.();
    };
    this.follow = client.follow(params, { onEvent: put, onEnd: (error) => put({ error }) });
  }

  async requestFlush() {
    const { session_id } = this;
    const { seq } = await this.client.flush({ session_id });
    this.#events.push({ method: "session/flushed", params: { session_id, seq } });
    this.#wanted?.();
  }

  async next() {
    while (this.#events.length === 0) await new Promise((fulfil) => (this.#wanted = fulfil));
    const event = this.#events.shift();
    if (event.error !== undefined) throw event.error;
    return { value: event };
  }
}

async function subscribed(client, params, earlier) {
  if (!isFollowing) return client.subscribe(params);
  // As on one connection of the protocol, a later subscription takes the place of an earlier one.
  earlier?.follow.stop();
  const followed = new Followed(client, params);
  await followed.follow.started;
  return followed;
}

async function answerOf(asked) {
  try {
    return { result: (await asked) ?? null };
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    return { error: { code: error.code, message: error.message, data: error.data } };
  }
}

await carryOut(async (options) => {
  const client = await connect({ socket: process.env.CONFORMANCE_SOCKET, ...options });
  const feeds = new Map();

  async function subscribe(params) {
    const { session_id } = params;
    feeds.set(session_id, await subscribed(client, params, feeds.get(session_id)));
  }

  return {
    call: (method, params) => answerOf(client.callAny(method, params)),
    subscribe: (params) => answerOf(subscribe(params)),
    flush: (session_id) => feeds.get(session_id).requestFlush(),
    async next(session_id) {
      const { value } = await feeds.get(session_id).next();
      return { method: value.method, params: value.params };
    },
    close: () => client.disconnect(),
  };
});
