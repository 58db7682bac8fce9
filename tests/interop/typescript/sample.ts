// A small client, checked by `tsc --strict` only: what it says is right, and what is wrong is refused.
import type {
  AnyEntry,
  Answer,
  Call,
  ErrorKind,
  Method,
  Methods,
  Notification,
  OtherType,
  Params,
  Request,
  Result,
  RpcError,
  SentEntry,
} from "../../../clients/typescript/protocol.js";

declare function send(line: string): Promise<Answer>;

let last = 0;

async function call<M extends Method>(method: M, params: Params<M>): Promise<Result<M>> {
  const request: Request<M> = { jsonrpc: "2.0", id: ++last, method, params };
  const answer = (await send(JSON.stringify(request))) as Answer<M>;
  if (answer.error !== undefined) throw answer.error;
  return answer.result;
}

/** What an entry says, in a few words: `type` alone tells entries apart. */
function words(entry: AnyEntry): string {
  const id: string = entry.id;
  switch (entry.type) {
    case "message":
      return `${id} ${entry.message.role}`;
    case "compaction":
      return entry.summary ?? `${entry.messages?.length} messages`;
    case "label":
      // @ts-expect-error a label has no message
      return entry.message ?? entry.label ?? "cleared";
    case "leaf":
      return entry.reason ?? "moved";
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

/** What to do next, by the kind of the error. */
function next(error: RpcError): string | number | null {
  switch (error.data.kind) {
    case "precondition_failed":
      return error.data.actual.leaf_id ?? error.data.missed.length;
    case "lease_held":
      return error.data.holder?.client_id ?? null;
    case "too_large":
      return error.data.limit;
    case "draining":
      // @ts-expect-error that belongs to another kind
      return error.data.missed ?? error.data.retry_after_ms;
    default:
      return error.message;
  }
}

function code(error: RpcError<"session_not_found">): -32020 {
  const ids: string[] | undefined = error.data.available;
  // @ts-expect-error no such member
  console.log(ids, error.data.availables);
  return error.code;
}

const otherType = "of_another_program" as OtherType;

export const sent: SentEntry[] = [
  { type: "message", message: { role: "user", content: "hi" } },
  { type: "custom", id: "mine", custom_type: "x", data: [1] },
  { type: otherType, anything: true },
  // @ts-expect-error a mistyped name of a member
  { type: "custom", custom_typ: "x" },
  // @ts-expect-error a mistyped type
  { type: "messages", message: { role: "user" } },
  // @ts-expect-error the daemon says where an entry stands
  { type: "label", target_id: "e1", label: "x", parent_id: "e1" },
  // @ts-expect-error nor does an entry of another type
  { type: otherType, seq: 3 },
  // @ts-expect-error a stored entry is not sent as it is
  {} as AnyEntry,
];

declare const ask: Call;

export async function forms(session_id: string): Promise<void> {
  const flat = await ask("session/tree", { session_id, limit: 10 });
  const nested = await ask("session/tree", { session_id, form: "nested" });
  const drawn = await ask("session/tree", { session_id, form: "text", depth: 3 });
  console.log(flat.nodes.length, flat.next_cursor, nested.roots.length, drawn.text);
  // @ts-expect-error the text has no nodes
  console.log(drawn.nodes);
  // @ts-expect-error no such form
  await ask("session/tree", { session_id, form: "round" });
  // @ts-expect-error no such parameter
  await ask("session/tree", { session_id, shape: "text" });
  console.log((await ask("catalog/forest", { form: "text" })).text);
  console.log((await ask("build_context", { session_id })).messages.length);
  const either = await ask("build_context", { session_id, if_none_match: "etag" });
  // @ts-expect-error the context may not be there
  console.log(either.messages);
  console.log((await ask("session/open", { session_id, create: true, cwd: "/p" })).created);
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
      { type: otherType, anything: true },
    ],
  });
  await call("subscribe", { session_id: session.id, after: { seq: first ?? 0, epoch: session.epoch } });
  const context: Methods["build_context"]["result"] = await call("build_context", { session_id: session.id });
  if ("not_modified" in context) throw new Error(context.etag);
  const leaf: string | null = context.leaf_id;
  console.log(leaf, heard, canRetry, next, code);

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
