// A session by the hands of vscode-jsonrpc: create, append, subscribe, read back.
// usage: node client.mjs NODE_MODULES SOCKET; what it saw goes to standard output as JSON.

import { createRequire } from "node:module";
import { connect } from "node:net";

const [modules, socketPath] = process.argv.slice(2);
const rpc = createRequire(`${modules}/`)("vscode-jsonrpc/node");

const socket = connect(socketPath);
const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(socket),
  new rpc.StreamMessageWriter(socket),
);

const problems = [];
connection.onError(([error]) => problems.push(String(error)));
connection.onUnhandledNotification((message) => problems.push(`unhandled ${message.method}`));

const events = [];
let eventsWanted = Infinity;
let enough;
connection.onNotification("session/event", (event) => {
  events.push(event);
  if (events.length >= eventsWanted) enough();
});
const synced = new Promise((resolve) => connection.onNotification("session/synced", resolve));
const eventsSeen = (count) =>
  new Promise((resolve) => {
    eventsWanted = count;
    enough = resolve;
    if (events.length >= count) resolve();
  });
connection.listen();

const ask = (method, ...params) => connection.sendRequest(method, ...params);
const refusal = async (method, params) => {
  try {
    await ask(method, params);
    return null;
  } catch (error) {
    return { code: error.code, message: error.message, data: error.data };
  }
};

const initialized = await ask("initialize", {
  processId: process.pid,
  rootUri: null,
  clientInfo: { name: "vscode-jsonrpc" },
  capabilities: { workspace: { applyEdit: true } },
});
await connection.sendNotification("initialized", {});
const created = await ask("session/create", { cwd: "/project", title: "Grüße" });
const session_id = created.session.id;

const before = await ask("append", { session_id, message: { role: "user", content: "before" } });
const subscribed = await ask("subscribe", { session_id, after: { seq: 0 } });
const caughtUp = await synced;
// Three at once: each is a frame of its own, and the answers come in order.
const messages = [
  { role: "user", content: "zwei\u2028\u{1f600}", "tool-name": 1, class: { _meta: [1.5, null] } },
  { role: "assistant", content: [{ type: "text", text: "x".repeat(200000) }] },
  { role: "user", content: "" },
];
const appended = await Promise.all(
  messages.map((message) => ask("append", { session_id, message })),
);
await eventsSeen(4);

const context = await ask("build_context", { session_id });
const entries = await ask("session/entries", { session_id });
const missing = await refusal("session/entry", { session_id, entry_id: "nothing" });
const unknown = await refusal("session/nothing", {});
const wrong = await refusal("append", { session_id, message: { content: "no role" } });

const source = new rpc.CancellationTokenSource();
source.cancel();
// Told to cancel what is answered already: it must not matter.
const ping = await connection.sendRequest("server/ping", {}, source.token);
const down = await ask("shutdown");
const closed = new Promise((resolve) => connection.onClose(resolve));
await connection.sendNotification("exit");
await closed;

console.log(
  JSON.stringify({
    initialized, created, before, subscribed, caughtUp, messages, appended, events,
    context, entries, missing, unknown, wrong, ping, down, problems,
  }),
);
