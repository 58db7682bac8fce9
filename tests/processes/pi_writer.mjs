// pi's own SessionManager on a file that others write, too: it opens the file, waits for a
// line on its input, appends so many messages, and ends.
//
//   node pi_writer.mjs SESSION_MANAGER FILE NAME COUNT

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [module, path, name, count] = process.argv.slice(2);
const { SessionManager } = await import(pathToFileURL(module).href);
const session = SessionManager.open(path);
for await (const _ of createInterface({ input: process.stdin })) break;
for (let n = 0; n < Number(count); n += 1) {
  session.appendMessage({ role: "user", content: `${name} ${n}`, timestamp: Date.now() });
}
process.exit(0);
