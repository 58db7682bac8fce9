// Steps of the conformance kit (tests/conformance/README.md), for clients in JavaScript.
import { createInterface } from "node:readline";

// JavaScript has one kind of number: `1.50` and integers beyond 2^53 do not survive a value.
const numbersOf = (text) => text.replaceAll(/"(?:[^"\\]|\\.)*"/g, "").match(/-?\d[\d.eE+-]*/g) ?? [];
const losesNumbers = (text) => numbersOf(text).some((number) => String(Number(number)) !== number);

/**
 * Carry out steps until standard input ends.
 *
 * `connect({clientId, access})` makes a client with `call(method, params)` and `subscribe(params)`, whose
 * answers are `{result}` or `{error}`, with `flush(session_id)`, `next(session_id)` and `close()`.
 */
export async function carryOut(connect) {
  const clients = new Map();

  async function act(step) {
    const { on, method, params = "{}", session_id } = step;
    if (step.do === "close") {
      for (const name of on === undefined ? [...clients.keys()] : [on]) {
        clients.get(name)?.close();
        clients.delete(name);
      }
      return {};
    }
    const texts = [params, ...(step.calls ?? []).map((one) => one.params)];
    if (texts.some(losesNumbers)) return { unsupported: "a number in another spelling than JavaScript's" };
    if (!clients.has(on)) {
      const { client_id: clientId, access } = JSON.parse(step.options ?? "{}");
      clients.set(on, await connect({ clientId, access }));
    }
    const client = clients.get(on);
    switch (step.do) {
      case "connect":
        return {};
      case "call":
        return { answer: JSON.stringify(await client.call(method, JSON.parse(params))) };
      case "pipeline": {
        const answers = step.calls.map((one) => client.call(one.method, JSON.parse(one.params)));
        return { answers: JSON.stringify(await Promise.all(answers)) };
      }
      case "subscribe":
        return { answer: JSON.stringify(await client.subscribe(JSON.parse(params))) };
      case "flush":
        client.flush(session_id);
        return {};
      case "next":
        return { event: JSON.stringify(await client.next(session_id)) };
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
  // Behind a case that failed, connections are open that would keep the process.
  for (const client of clients.values()) client.close();
}
