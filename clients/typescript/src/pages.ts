import type { Values } from "./call.js";
import { RpcError } from "./errors.js";

const MESSAGES_MAX = 10_000;

interface Page {
  messages?: unknown[];
  sources?: unknown[];
  next_cursor?: string | null;
}

/** Ask; where the answer is larger than an answer may be, ask for its pages and return them as one answer. */
export async function byPages(params: Values, ask: (params: Values) => Promise<unknown>): Promise<unknown> {
  try {
    return await ask(params);
  } catch (error) {
    if (!(error instanceof RpcError) || error.data["pages"] !== true) throw error;
  }
  const given = { ...params, limit: MESSAGES_MAX };
  const { next_cursor: second, ...whole } = (await ask(given)) as Page;
  for (let cursor = second; cursor != null; ) {
    const page = (await ask({ ...given, cursor })) as Page;
    whole.messages = [...(whole.messages ?? []), ...(page.messages ?? [])];
    whole.sources = [...(whole.sources ?? []), ...(page.sources ?? [])];
    cursor = page.next_cursor;
  }
  return whole;
}
