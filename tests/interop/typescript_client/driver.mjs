// The TypeScript client under the hand of a test: each line of input is code, each line of output what came of it.
//
//     node driver.mjs PATH_OF_THE_BUILT_CLIENT OPTIONS_OF_CONNECT
//
// The code sees the library as `lib`, a connected client as `c`, and keeps what it needs in `s`.
import { createInterface } from "node:readline";

const lib = await import(process.argv[2]);
const c = await lib.connect({ timeoutMs: 60_000, connectTimeoutMs: 20_000, ...JSON.parse(process.argv[3]) });
const s = {};
const AsyncFunction = (async () => undefined).constructor;

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = { value: (await new AsyncFunction("lib", "c", "s", JSON.parse(line))(lib, c, s)) ?? null };
  } catch ({ name, message, kind, outcomeUnknown }) {
    said = { error: { name, message, kind, outcomeUnknown } };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
c.disconnect();
