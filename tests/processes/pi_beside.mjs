// pi's own SessionManager beside a daemon on one file: one command a line, one answer a line.
//
//   node pi_beside.mjs SESSION_MANAGER
//   {"do":"say","path":"…","role":"user","text":"…"}   pi opens the file and appends a message
//   {"do":"context","path":"…"}                         pi opens the file and builds its context

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { SessionManager } = await import(pathToFileURL(process.argv[2]).href);

const NO_USAGE = {
  input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

const acts = {
  say({ path, role, text }) {
    const content = [{ type: "text", text }];
    const message = { role, content, timestamp: Date.now() };
    if (role === "assistant") {
      Object.assign(message, { api: "a", provider: "p", model: "m", usage: NO_USAGE, stopReason: "stop" });
    }
    return { id: SessionManager.open(path).appendMessage(message) };
  },
  context({ path }) {
    const manager = SessionManager.open(path);
    return { context: manager.buildSessionContext(), leaf: manager.getLeafId() };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  process.stdout.write(JSON.stringify(acts[asked.do](asked)) + "\n");
}
