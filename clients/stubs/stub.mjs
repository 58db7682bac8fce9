#!/usr/bin/env node
// A client of sessiond in one file, to copy and own: Node 20.11 or newer, nothing to install.
import { execFile } from "node:child_process";
import { lstatSync, realpathSync } from "node:fs";
import { createConnection } from "node:net";
import { dirname, resolve } from "node:path";
import { promisify } from "node:util";
const VERSION = "0.1.1"; // of the daemon that this file was made for
const told = new Set([VERSION]);
const sessiond = async (command) => (await promisify(execFile)("sessiond", [command])).stdout.trim();

/** Throw if another user may listen: Node does not tell who does, so the folder and those above must be safe. */
function requireOwn(path) {
  const isOwn = ({ uid }) => uid === process.geteuid() || uid === 0;
  const isSafe = (found) => isOwn(found) && (!found.isDirectory() || (found.mode & 0o22) === 0 || found.mode & 0o1000);
  const folder = lstatSync(dirname(path), { throwIfNoEntry: false });
  if (!folder) return;
  let isGood = folder.uid === process.geteuid() && folder.isDirectory() && (folder.mode & 0o777) === 0o700;
  for (let above of [dirname(path), realpathSync(dirname(path))]) {
    for (; above !== "/"; above = dirname(above)) isGood &&= isSafe(lstatSync(dirname(above)));
  }
  const file = lstatSync(path, { throwIfNoEntry: false });
  if (isGood && (file === undefined || (isOwn(file) && !file.isSymbolicLink()))) return;
  throw new Error(`nothing was sent to ${path}: the folder of the socket must be yours, with mode 0700 and no link`);
}
/** Say once that the daemon is of another version than this file. */
function tellAnother(version) {
  if (told.size === told.add(version).size) return;
  const age = version.localeCompare(VERSION, "en", { numeric: true }) > 0 ? "newer" : "older";
  const than = `(${version}) than this stub (${VERSION})`;
  console.error(`the running daemon is ${age} ${than}: \`sessiond restart\` replaces it`);
}
/** Yield what the daemon sends, one JSON object a line, until the connection ends. */
async function* read(connection) {
  let parts = [];
  for await (const chunk of connection.setEncoding("utf8")) {
    const [end, ...begins] = chunk.split("\n");
    parts.push(end);
    for (const begin of begins) {
      yield JSON.parse(parts.join(""));
      parts = [begin];
    }
  }
}
/** Send a request; yield the result and the messages behind it. After a failure, send the request again. */
export async function* exchange(method, params) {
  const path = resolve(process.env.SESSIOND_SOCKET || (await sessiond("sockname")));
  for (let failures = 0; ; await sessiond("start"), await promisify(setTimeout)(Math.min(100 * 2 ** failures, 3000))) {
    requireOwn(path);
    const connection = createConnection(path);
    // For the answer: a daemon that hangs is asked again.
    connection.setTimeout(60_000, () => connection.destroy(new Error("no answer in 60 s")));
    try {
      const requests = [{ id: 0, method: "initialize", params: {} }, { id: 1, method, params }];
      connection.write(requests.map((request) => JSON.stringify(request) + "\n").join(""));
      for await (const message of read(connection)) {
        const { error, result = message } = message;
        if (error) throw new Error(`refused: ${JSON.stringify(error)}`, { cause: error });
        if (["session/closed", "server/draining"].includes(message.method)) break;
        if (message.id === 0) { tellAnother(result.server_info.version); continue; }
        connection.setTimeout(failures = 0);
        yield result;
      }
      throw new Error("the daemon ended the connection");
    } catch (error) {
      if (error.cause?.data.retryable === false || ++failures === 30) throw error;
    } finally { connection.destroy(); }
  }
}
/** Return the result of a request that is safe to send again. */
export const call = async (method, params) => { for await (const result of exchange(method, params)) return result; };
/** Store a message exactly once: every try has the same entry id, so the daemon knows a repetition. */
export const append = (session_id, message) =>
  call("session/append", { session_id, entry: { type: "message", id: crypto.randomUUID(), message } });
/** Return what a model is sent; a context that is larger than an answer comes by pages. */
export async function context(session_id) {
  const ask = (page) => call("session/build_context", { session_id, ...page });
  try { return await ask(); } catch (error) { if (!error.cause?.data.pages) throw error; }
  const { next_cursor, ...whole } = await ask({ limit: 10_000 });
  for (let page, cursor = next_cursor; cursor; cursor = page.next_cursor) {
    page = await ask({ limit: 10_000, cursor });
    for (const name of ["messages", "sources"]) whole[name].push(...page[name]);
  }
  return whole;
}
/** Yield every event behind the cursor, once and in order, also over restarts of the daemon. */
export async function* watch(session_id, cursor = { seq: 0 }) {
  const params = { session_id, after: cursor };
  for await (const message of exchange("session/subscribe", params)) {
    if (message.method === "session/event") params.after = { seq: message.params.seq, epoch: message.params.epoch };
    yield message;
  }
}
if (realpathSync(process.argv[1] ?? ".") === import.meta.filename) {
  process.on("uncaughtException", (error) => { console.error(error.message); process.exit(1); });
  const [command, session_id, word] = process.argv.slice(2);
  const show = (value) => console.log(JSON.stringify(value));
  if (command === "append" && word) show(await append(session_id, { role: "user", content: word }));
  else if (command === "context") show(await context(session_id));
  else if (command === "watch") for await (const event of watch(session_id, word && JSON.parse(word))) show(event);
  else if (command === "create" && session_id) // or open the session that has the id
    show(await call("session/create", { session_id, cwd: process.cwd(), persist: "immediate", if_exists: "open" }));
  else if (command === "branch" && word) { // from where main is now: a try behind one that was done is refused
    const { session: { leaf_id } } = await call("session/get", { session_id });
    show(await call("session/branch", { session_id, entry_id: word, expected: { leaf_id } }));
  } else if (command === "compact" && session_id) // without a summary the daemon has one written
    show(await call("session/compact", { session_id, summary: word, idempotency_key: crypto.randomUUID() }));
  else throw new Error("usage: stub.mjs append SESSION TEXT | watch SESSION [CURSOR] | context SESSION" +
    " | create SESSION | branch SESSION ENTRY | compact SESSION [SUMMARY]");
}
