// A server of MCP over HTTP for each client that says hello, in front of a server over stdio: the official
// suite speaks HTTP only. Both ends are transports of the SDK, which pass each message on as it is. The
// first line of output is the address.
//
//     node bridge.mjs COMMAND ARGUMENT…
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.env.NODE_PATH + "/"));
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const {
  StreamableHTTPServerTransport,
} = require("@modelcontextprotocol/sdk/server/streamableHttp.js");

const [command, ...args] = process.argv.slice(2);
const clients = new Map();

async function begin() {
  const outside = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => clients.set(id, outside),
  });
  const inside = new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });
  outside.onmessage = (message) => inside.send(message);
  inside.onmessage = (message) => {
    // An answer belongs to its request; what else is said goes to the stream that the client holds open.
    const related = "method" in message ? undefined : message.id;
    outside.send(message, { relatedRequestId: related }).catch(() => undefined);
  };
  outside.onclose = () => inside.close();
  await inside.start();
  await outside.start();
  return outside;
}

const server = createServer(async (request, response) => {
  const known = clients.get(request.headers["mcp-session-id"]);
  await (known ?? (await begin())).handleRequest(request, response);
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${server.address().port}/mcp\n`);
});
