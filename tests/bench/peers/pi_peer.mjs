// The pi peer of rows 2, 8 and 13: pi's own SessionManager in process, one task a line.
// Law: what pi does not do itself (reading our messages, checking, collecting garbage)
// happens before the clock starts or after it stops.
//
//   > {"do":"append","messages":"…/messages.jsonl","folder":"…"}
//   < {"ms":81.2,"count":5000,"path":"…/2026-….jsonl"}
//   > {"do":"open","path":"…/pi.jsonl"}
//   < {"ms":1480.5,"count":100000,"path":"…"}
//   > {"do":"list","folder":"…/sessions"}
//   < {"ms":2700.1,"count":1000,"path":"…"}

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { SessionManager } = await import(pathToFileURL(process.argv[2]).href);
const loaded = new Map();

function messagesOf(path) {
  if (!loaded.has(path)) {
    loaded.clear();
    const lines = readFileSync(path, "utf8").split("\n").filter((line) => line);
    loaded.set(path, lines.map((line) => JSON.parse(line)));
  }
  return loaded.get(path);
}

const tasks = {
  append({ messages, folder }) {
    const load = messagesOf(messages);
    const session = SessionManager.create("/bench", folder);
    global.gc();
    const start = performance.now();
    for (const message of load) session.appendMessage(message);
    const ms = performance.now() - start;
    return { ms, count: load.length, path: session.getSessionFile() };
  },
  open({ path }) {
    global.gc();
    const start = performance.now();
    const session = SessionManager.open(path);
    const ms = performance.now() - start;
    return { ms, count: session.getEntries().length, path };
  },
  async list({ folder }) {
    global.gc();
    const start = performance.now();
    const sessions = await SessionManager.list("/bench", folder);
    const ms = performance.now() - start;
    return { ms, count: sessions.length, path: folder };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(await tasks[task.do](task))}\n`);
}
