// The pi peer of rows 2, 5, 8, 10, 11, 12 and 13: pi's own SessionManager in process, one task a line.
// Law: what pi does not do itself (reading our messages, checking, collecting garbage)
// happens before the clock starts or after it stops.
//
//   > {"do":"append","messages":"…/messages.jsonl","folder":"…"}
//   < {"ms":81.2,"count":5000,"path":"…/2026-….jsonl"}
//   > {"do":"open","path":"…/pi.jsonl"}
//   < {"ms":1480.5,"count":100000,"path":"…"}
//   > {"do":"hold","path":"…/pi.jsonl"}
//   < {"ms":1480.5,"count":100000,"path":"…"}
//   > {"do":"collect"}
//   < {"ms":12.5,"count":0,"path":""}
//   > {"do":"context","path":"…/pi.jsonl"}
//   < {"ms":440.2,"count":201,"path":"…"}
//   > {"do":"compact","path":"…/pi.jsonl","times":20}
//   < {"ms":9000.1,"count":2,"path":"…"}
//   > {"do":"list","folder":"…/sessions"}
//   < {"ms":2700.1,"count":1000,"path":"…"}

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { SessionManager } = await import(pathToFileURL(process.argv[2]).href);
const loaded = new Map();
const opened = new Map();

function messagesOf(path) {
  if (!loaded.has(path)) {
    loaded.clear();
    const lines = readFileSync(path, "utf8").split("\n").filter((line) => line);
    loaded.set(path, lines.map((line) => JSON.parse(line)));
  }
  return loaded.get(path);
}

function openedAt(path) {
  if (!opened.has(path)) opened.set(path, SessionManager.open(path));
  return opened.get(path);
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
  // Open and keep.
  hold({ path }) {
    const start = performance.now();
    const session = openedAt(path);
    return { ms: performance.now() - start, count: session.getEntries().length, path };
  },
  // Free what nothing holds. Some of it is returned to the system a moment later.
  async collect() {
    const start = performance.now();
    for (let n = 0; n < 2; n += 1) {
      global.gc();
      await new Promise((done) => setTimeout(done, 100));
    }
    return { ms: performance.now() - start, count: 0, path: "" };
  },
  context({ path }) {
    const session = openedAt(path);
    global.gc();
    const start = performance.now();
    const { messages } = session.buildSessionContext();
    JSON.stringify(messages);
    const ms = performance.now() - start;
    return { ms, count: messages.length, path };
  },
  compact({ path, times }) {
    const session = openedAt(path);
    let ms = 0;
    let count = 0;
    for (let n = 0; n < times; n += 1) {
      const kept = session.appendMessage({ role: "user", content: "and on", timestamp: 1 });
      const start = performance.now();
      session.getBranch();
      session.appendCompaction("What was said before.", kept, 1000);
      count = session.buildSessionContext().messages.length;
      ms += performance.now() - start;
    }
    return { ms, count, path };
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
