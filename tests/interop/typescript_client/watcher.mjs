// A program that prints the ids of entries as they come, over restarts of the daemon:
//
//     node watcher.mjs PATH_OF_THE_BUILT_CLIENT SOCKET SESSION COUNT
const [path, socket, session_id, count] = process.argv.slice(2);
const { connect } = await import(path);
const client = await connect({ socket, timeoutMs: 60_000, connectTimeoutMs: 20_000 });
let left = Number(count);
for await (const event of await client.subscribe({ session_id, after: 0 })) {
  if (event.method !== "session/event") continue;
  process.stdout.write(`${event.params.seq} ${event.params.entry.id}\n`);
  if (--left === 0) break;
}
