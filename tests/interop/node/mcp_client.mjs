// A client made with the SDK of the Model Context Protocol, under the hand of a test: each line of input is
// code that sees the client as `c` and keeps what it needs in `s`; each line of output is what came of it.
//
//     node mcp_client.mjs COMMAND ARGUMENT…
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.env.NODE_PATH + "/"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { ResourceUpdatedNotificationSchema } = require("@modelcontextprotocol/sdk/types.js");

const [command, ...args] = process.argv.slice(2);
const c = new Client({ name: "another make", version: "1.0.0" });
const s = { updated: [], wake: () => undefined };
c.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
  s.updated.push(params.uri);
  s.wake();
});
await c.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
const AsyncFunction = (async () => undefined).constructor;
for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = { value: (await new AsyncFunction("c", "s", JSON.parse(line))(c, s)) ?? null };
  } catch ({ name, message }) {
    said = { error: { name, message } };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
await c.close();
