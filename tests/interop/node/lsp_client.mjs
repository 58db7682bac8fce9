// An editor by the hands of vscode-languageserver-protocol: open, symbols, hover, definition, problems.
// usage: node lsp_client.mjs NODE_MODULES FILE COMMAND...; what it saw goes to standard output as JSON.

import { spawn } from "node:child_process";
import { appendFileSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, path, command, ...words] = process.argv.slice(2);
const lsp = createRequire(`${modules}/`)("vscode-languageserver-protocol/node");

const server = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"] });
const left = new Promise((resolve) => server.on("exit", resolve));
const connection = lsp.createProtocolConnection(
  new lsp.StreamMessageReader(server.stdout),
  new lsp.StreamMessageWriter(server.stdin),
);

const troubles = [];
connection.onError(([error]) => troubles.push(String(error)));
connection.onUnhandledNotification((message) => troubles.push(`unhandled ${message.method}`));

const published = [];
let wake = () => {};
connection.onNotification(lsp.PublishDiagnosticsNotification.type, (params) => {
  published.push(params);
  wake();
});
const problems = async () => {
  while (published.length === 0) await new Promise((resolve) => (wake = resolve));
  return published.shift();
};
connection.listen();

const uri = pathToFileURL(path).href;
const textDocument = { uri };
const hello = await connection.sendRequest(lsp.InitializeRequest.type, {
  processId: process.pid,
  rootUri: null,
  capabilities: {
    textDocument: { documentSymbol: { hierarchicalDocumentSymbolSupport: true } },
  },
});
await connection.sendNotification(lsp.InitializedNotification.type, {});

const text = readFileSync(path, "utf-8");
await connection.sendNotification(lsp.DidOpenTextDocumentNotification.type, {
  textDocument: { uri, languageId: "jsonl", version: 1, text },
});
const saw = { capabilities: hello.capabilities, opened: await problems() };

const lines = text.split("\n");
const line = 4;
const parent = lines[line].indexOf('"parent_id":"') + '"parent_id":"'.length;
saw.symbols = await connection.sendRequest(lsp.DocumentSymbolRequest.type, { textDocument });
const position = { line, character: parent };
saw.hover = await connection.sendRequest(lsp.HoverRequest.type, {
  textDocument,
  position: { line, character: 0 },
});
saw.parent = await connection.sendRequest(lsp.HoverRequest.type, { textDocument, position });
saw.definition = await connection.sendRequest(lsp.DefinitionRequest.type, {
  textDocument,
  position,
});

// Another process breaks the file, and the editor reads the file again.
appendFileSync(path, "this is no JSON\n");
saw.broken = await problems();
const end = { line: lines.length - 1, character: 0 };
await connection.sendNotification(lsp.DidChangeTextDocumentNotification.type, {
  textDocument: { uri, version: 2 },
  contentChanges: [{ range: { start: end, end }, text: "this is no JSON\n" }],
});
saw.placed = await problems();

await connection.sendNotification(lsp.DidCloseTextDocumentNotification.type, { textDocument });
saw.closed = await problems();
await connection.sendRequest(lsp.ShutdownRequest.type);
await connection.sendNotification(lsp.ExitNotification.type);
saw.exitCode = await left;
saw.troubles = troubles;
connection.dispose();
process.stdout.write(JSON.stringify(saw));
