// A small client, checked by `tsc --strict` only: what it says is right, and what is wrong is refused.
import type {
  AnyEntry,
  Answer,
  ErrorKind,
  KnownEntry,
  Method,
  Methods,
  Notification,
  Params,
  Request,
  Result,
  RpcError,
} from "../../../clients/typescript/protocol.js";

declare function send(line: string): Promise<Answer>;

let last = 0;

async function call<M extends Method>(method: M, params: Params<M>): Promise<Result<M>> {
  const request: Request<M> = { jsonrpc: "2.0", id: ++last, method, params };
  const answer = (await send(JSON.stringify(request))) as Answer<M>;
  if (answer.error !== undefined) throw answer.error;
  return answer.result;
}

/** What an entry says, in a few words; unknown types come as they are. */
function words(entry: AnyEntry): string {
  const known = entry as KnownEntry;
  switch (known.type) {
    case "message":
      return known.message.role;
    case "compaction":
      return known.summary ?? `${known.messages?.length} messages`;
    case "label":
      return known.label ?? "cleared";
    case "leaf":
      return known.reason ?? "moved";
    default:
      return entry.type;
  }
}

function heard(notification: Notification): string {
  switch (notification.method) {
    case "session/event":
      return `${notification.params.seq} ${words(notification.params.entry)}`;
    case "session/synced":
      return `synced at ${notification.params.seq}`;
    case "$/progress": {
      const { kind, done, total, unit } = notification.params.value;
      return `${kind} ${done}/${total ?? "?"} ${unit}`;
    }
    default:
      return notification.method;
  }
}

function canRetry(error: RpcError): boolean {
  const stale: ErrorKind = "precondition_failed";
  return error.data.retryable || error.data.kind === stale;
}

export async function main(): Promise<void> {
  const { session } = await call("session/create", { cwd: "/my/project", persist: "immediate" });
  const receipt = await call("append", {
    session_id: session.id,
    message: { role: "user", content: "hi" },
    expected: { leaf_id: null },
    _meta: { progress_token: 1 },
  });
  const first: number | undefined = receipt.entries[0]?.seq;
  await call("session/append", {
    session_id: session.id,
    entries: [
      { type: "custom", custom_type: "x", data: { a: [1.5] } },
      { type: "of_another_program", anything: true },
    ],
  });
  await call("subscribe", { session_id: session.id, after: { seq: first ?? 0, epoch: session.epoch } });
  const context: Methods["build_context"]["result"] = await call("build_context", { session_id: session.id });
  if ("not_modified" in context) throw new Error(context.etag);
  const leaf: string | null = context.leaf_id;
  console.log(leaf, heard, canRetry);

  // @ts-expect-error a session is named
  await call("session/get", {});
  // @ts-expect-error no such parameter
  await call("session/append", { session_id: session.id, text: { role: "user" } });
  // @ts-expect-error no such method
  await call("session/appendd", { session_id: session.id });
  // @ts-expect-error a message has a role
  await call("append", { session_id: session.id, message: { content: "hi" } });
  // @ts-expect-error no such durability
  await call("append", { session_id: session.id, message: { role: "user" }, durability: "memory" });
  // @ts-expect-error a member that is always there is no longer optional, one that is not there is an error
  console.log(receipt.entries_stored, receipt.durability.length);
}
