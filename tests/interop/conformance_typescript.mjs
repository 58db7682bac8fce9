// The TypeScript client as a command of the conformance kit (tests/conformance/README.md):
//
//     node tests/interop/conformance_typescript.mjs PATH_OF_THE_BUILT_CLIENT
import { createInterface } from "node:readline";

const { connect, RpcError } = await import(process.argv[2]);
const clients = new Map();
const feeds = new Map();

// JavaScript has one kind of number: `1.50` and integers beyond 2^53 do not survive a value.
const numbersOf = (text) => text.replaceAll(/"(?:[^"\\]|\\.)*"/g, "").match(/-?\d[\d.eE+-]*/g) ?? [];
const losesNumbers = (text) => numbersOf(text).some((number) => String(Number(number)) !== number);

async function call(client, method, params) {
  try {
    return { result: (await client.callAny(method, JSON.parse(params))) ?? null };
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    return { error: { code: error.code, message: error.message, data: error.data } };
  }
}

async function act(step) {
  const { on, method, params = "{}", session_id } = step;
  if (step.do === "close") {
    for (const name of on === undefined ? [...clients.keys()] : [on]) {
      clients.get(name)?.disconnect();
      clients.delete(name);
    }
    return {};
  }
  const texts = [params, ...(step.calls ?? []).map((one) => one.params)];
  if (texts.some(losesNumbers)) return { unsupported: "a number in another spelling than JavaScript's" };
  if (!clients.has(on)) {
    const { client_id: clientId, access } = JSON.parse(step.options ?? "{}");
    clients.set(on, await connect({ socket: process.env.CONFORMANCE_SOCKET, clientId, access }));
  }
  const client = clients.get(on);
  const key = `${on} ${session_id ?? JSON.parse(params).session_id}`;
  switch (step.do) {
    case "connect":
      return {};
    case "call":
      return { answer: JSON.stringify(await call(client, method, params)) };
    case "pipeline":
      return {
        answers: JSON.stringify(await Promise.all(step.calls.map((one) => call(client, one.method, one.params)))),
      };
    case "subscribe":
      try {
        feeds.set(key, await client.subscribe(JSON.parse(params)));
        return { answer: '{"result":{}}' };
      } catch (error) {
        if (!(error instanceof RpcError)) throw error;
        const { code, message, data } = error;
        return { answer: JSON.stringify({ error: { code, message, data } }) };
      }
    case "flush":
      feeds.get(key).requestFlush();
      return {};
    case "next": {
      const { value } = await feeds.get(key).next();
      return { event: JSON.stringify({ method: value.method, params: value.params }) };
    }
    default:
      return { unsupported: `no surface for ${step.do}` };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = await act(JSON.parse(line));
  } catch (error) {
    said = { failed: String(error) };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
