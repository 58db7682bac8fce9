// The TypeScript client as a command of the conformance kit (tests/conformance/README.md):
//
//     node tests/interop/conformance_typescript.mjs PATH_OF_THE_BUILT_CLIENT
import { carryOut } from "./node/steps.mjs";

const { connect, RpcError } = await import(process.argv[2]);

async function answerOf(asked) {
  try {
    return { result: (await asked) ?? null };
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    return { error: { code: error.code, message: error.message, data: error.data } };
  }
}

await carryOut(async (options) => {
  const client = await connect({ socket: process.env.CONFORMANCE_SOCKET, ...options });
  const feeds = new Map();
  return {
    call: (method, params) => answerOf(client.callAny(method, params)),
    subscribe: (params) =>
      answerOf(client.subscribe(params).then((feed) => void feeds.set(params.session_id, feed))),
    flush: (session_id) => feeds.get(session_id).requestFlush(),
    async next(session_id) {
      const { value } = await feeds.get(session_id).next();
      return { method: value.method, params: value.params };
    },
    close: () => client.disconnect(),
  };
});
