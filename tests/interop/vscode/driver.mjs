// The logic of the VS Code extension under the hand of a test: each line of input is code, each line of output what
// came of it.
//
//     node driver.mjs PATH_OF_THE_BUNDLED_LOGIC OPTIONS_OF_CONNECT
//
// The code sees the logic as `core`, a connection as `connection`, the shared follows as `feeds`, and keeps what the
// code needs in `s`. `until(() => …)` waits until a value is true; `changed` is to be called whenever the value may be
// another one. `untilNoTimer()` waits until the logic waits for no time.
import { createInterface } from "node:readline";

const PATIENCE_MS = 60_000;

const { setTimeout: later, setInterval: often, clearTimeout: forget } = globalThis;
const timers = new Set();
globalThis.setTimeout = (act, ms, ...given) => {
  const timer = later(() => {
    timers.delete(timer);
    act(...given);
  }, ms);
  timers.add(timer);
  return timer;
};
globalThis.setInterval = (...given) => {
  const timer = often(...given);
  timers.add(timer);
  return timer;
};
globalThis.clearTimeout = globalThis.clearInterval = (timer) => {
  timers.delete(timer);
  forget(timer);
};
async function untilNoTimer() {
  const end = Date.now() + PATIENCE_MS;
  while (timers.size > 0) {
    if (Date.now() >= end) throw new Error(`${timers.size} timers ran all the time`);
    await new Promise((fulfil) => later(fulfil, 5));
  }
}

const core = await import(process.argv[2]);
const options = JSON.parse(process.argv[3]);
const connection = new core.Connection(() => ({ connectTimeoutMs: 20_000, ...options }));
const feeds = new core.Feeds(connection);
const s = {};
const AsyncFunction = (async () => undefined).constructor;

let waiting = [];
const changed = () => {
  const woken = waiting;
  waiting = [];
  for (const wake of woken) wake();
};
async function until(isIt) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await isIt();
    if (value) return value;
    if (Date.now() >= end) throw new Error("it was not true in time");
    await new Promise((fulfil) => {
      waiting.push(fulfil);
      later(fulfil, end - Date.now()).unref();
    });
  }
}

const given = { core, connection, feeds, s, until, untilNoTimer, changed };
for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    const act = new AsyncFunction(...Object.keys(given), JSON.parse(line));
    said = { value: (await act(...Object.values(given))) ?? null };
  } catch ({ name, message, kind, outcomeUnknown }) {
    said = { error: { name, message, kind, outcomeUnknown } };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
connection.dispose();
