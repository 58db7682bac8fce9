// A program that appends, one message after the other, over restarts of the daemon:
//
//     node writer.mjs PATH_OF_THE_BUILT_CLIENT SOCKET SESSION NAME COUNT
const [path, socket, session_id, name, count] = process.argv.slice(2);
const { connect } = await import(path);
const client = await connect({ socket, timeoutMs: 60_000, connectTimeoutMs: 20_000 });
for (let number = 0; number < Number(count); number += 1) {
  const { seq } = await client.append({ session_id, message: { role: "user", content: `${name} ${number}` } });
  process.stdout.write(`${seq}\n`);
}
// No disconnect: a client that has nothing to do keeps no process alive.
