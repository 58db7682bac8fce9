// vscode-languageserver-protocol as a command of the conformance kit (tests/conformance/README.md):
//
//     node tests/interop/node/conformance.mjs NODE_MODULES
import { createRequire } from "node:module";
import { connect } from "node:net";

import { carryOut } from "./steps.mjs";

const rpc = createRequire(`${process.argv[2]}/`)("vscode-languageserver-protocol/node");

class Events {
  #waiting = [];
  #asked = [];

  put(event) {
    const asked = this.#asked.shift();
    if (asked) asked(event);
    else this.#waiting.push(event);
  }

  next() {
    return this.#waiting.length
      ? Promise.resolve(this.#waiting.shift())
      : new Promise((resolve) => this.#asked.push(resolve));
  }
}

await carryOut(async ({ clientId, access }) => {
  const socket = connect(process.env.CONFORMANCE_SOCKET);
  const connection = rpc.createProtocolConnection(
    new rpc.StreamMessageReader(socket),
    new rpc.StreamMessageWriter(socket),
    rpc.NullLogger,
  );
  const feeds = new Map();
  connection.onUnhandledNotification(({ method, params }) => feeds.get(params.session_id)?.put({ method, params }));
  connection.listen();

  async function call(method, params) {
    try {
      return { result: await connection.sendRequest(method, params) };
    } catch (error) {
      if (!(error instanceof rpc.ResponseError)) throw error;
      return { error: { code: error.code, message: error.message, data: error.data } };
    }
  }

  await call("initialize", { client_id: clientId, access });
  return {
    call,
    async subscribe(params) {
      const events = new Events();
      const before = feeds.get(params.session_id);
      feeds.set(params.session_id, events);
      const answer = await call("subscribe", params);
      const { epoch, replaced: reason } = answer.result ?? {};
      if (reason) events.put({ method: "session/replaced", params: { session_id: params.session_id, epoch, reason } });
      if (answer.error && before) feeds.set(params.session_id, before);
      return answer;
    },
    async flush(session_id) {
      const { result } = await call("session/flush", { session_id });
      feeds.get(session_id).put({ method: "session/flushed", params: { session_id, ...result } });
    },
    next: (session_id) => feeds.get(session_id).next(),
    close() {
      connection.dispose();
      socket.destroy();
    },
  };
});
