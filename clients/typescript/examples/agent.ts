/**
 * An agent, whole and small, that keeps its conversation in a session of sessiond.
 *
 *     node agent.ts SESSION [--cwd FOLDER] [--name NAME]        Node 22.18 or newer
 *
 * OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL name the model: any server of streaming chat
 * completions. Prompts come from any client, through the queue of the session:
 *
 *     sessiond call session/signal '{"session_id": SESSION, "kind": "follow_up", "queue": true, "data": "Hi"}'
 *
 * `kind` "steer" is taken before the next request to the model, and a signal of kind "abort" ends the
 * turn. Any number of agents may work on one session: a lease on the head lets one of them work at a
 * time, and when an agent is killed, the next one finishes the turn. The agent holds no log: what it
 * knows, it reads from the daemon when its turn begins.
 */
import { createHash } from "node:crypto";
import { parseArgs } from "node:util";

import {
  type Asked,
  type Client,
  connect,
  ConnectionLost,
  LeaseLost,
  type Offer,
  RpcError,
  type SessionNotification,
  Timeout,
} from "sessiond-client";

import { Answer, Model, ModelError } from "./model.ts";
import { runTool, TOOLS } from "./tools.ts";

const LEASE_WAIT_MS = 600_000;
const SUMMARY_MS = 150_000;
const ABORTED = "a client ended the turn";

/** One agent on the head `main` of a session. */
class Agent {
  readonly #client: Client;
  readonly #session: { session_id: string };
  readonly #model: Model;
  readonly #toolSeconds: number;
  #messages: unknown[] = []; // the context that the model saw last
  #leafId: string | null = null;
  #turn = new AbortController();
  #wake = (): void => undefined;

  constructor(client: Client, session_id: string, model: Model, toolSeconds: number) {
    this.#client = client;
    this.#session = { session_id };
    this.#model = model;
    this.#toolSeconds = toolSeconds;
  }

  /** Work on the session until the process ends. */
  async run(): Promise<void> {
    const events = await this.#client.subscribe({ ...this.#session, signals: true });
    const offer = await this.#client.offer({ summarize: ["compaction"] });
    await Promise.all([this.#listen(events), this.#summarize(offer), this.#workForEver()]);
  }

  async #workForEver(): Promise<void> {
    for (;;) {
      const woken = new Promise<void>((fulfil) => (this.#wake = fulfil));
      await this.#work();
      await this.#rest();
      await woken;
    }
  }

  /** Wake the agent for a prompt, and end its turn when a client says so. */
  async #listen(events: AsyncIterable<SessionNotification>): Promise<void> {
    for await (const { method, params } of events) {
      if (method === "session/signal" && params.kind === "abort") this.#turn.abort(ABORTED);
      if (method === "session/signal" && params.queue_id != null) this.#wake();
      if (method === "session/synced") this.#wake(); // a signal may have been missed
    }
  }

  /** Tell the other clients of the session what this agent does. */
  async #show(state: string): Promise<void> {
    await this.#client.presence({ ...this.#session, state });
  }

  /** Be idle, and tell which context this agent knows, by the context's SHA-256. */
  async #rest(): Promise<void> {
    const messages = await this.#context();
    const context = createHash("sha256").update(JSON.stringify(messages)).digest("hex");
    const data = { leaf_id: this.#leafId, context };
    await this.#client.presence({ ...this.#session, state: "idle", data });
  }

  // -- turns --------------------------------------------------------------------------------

  /** Take the lease and finish turns, as long as there is something to do. */
  async #work(): Promise<void> {
    while ((await this.#isUnfinished()) || (await this.#waiting()).length > 0) {
      try {
        const lease = await this.#client.lease({ ...this.#session, wait_ms: LEASE_WAIT_MS });
        try {
          while ((await this.#isUnfinished()) || (await this.#takePrompt(lease.id))) {
            await this.#finishTurn(lease.id);
          }
        } finally {
          await lease.release();
        }
      } catch (error) {
        // What was stored, is stored: look again.
        const isOver = error instanceof RpcError && (error.is("lease_lost") || error.is("lease_held"));
        if (!isOver && !(error instanceof LeaseLost) && !(error instanceof ConnectionLost)) throw error;
      }
    }
  }

  async #waiting() {
    return (await this.#client.queue(this.#session)).waiting;
  }

  /** Tell whether the newest turn waits for an answer, be it the turn of a killed agent. */
  async #isUnfinished(): Promise<boolean> {
    const { turns } = await this.#client.turns({ ...this.#session, view: "agent", limit: 1, from_end: true });
    return turns.some(({ status }) => status === "pending" || status === "streaming");
  }

  /** Move the next prompt from the queue to the session; false if none waits. */
  async #takePrompt(lease_id: string, kind?: string): Promise<boolean> {
    const prompt = (await this.#waiting()).find((one) => kind === undefined || one.kind === kind);
    if (prompt === undefined) return false;
    const content = typeof prompt.data === "string" ? prompt.data : JSON.stringify(prompt.data);
    const entry = { type: "message", id: prompt.queue_id, message: { role: "user", content } } as const;
    await this.#client.append({ ...this.#session, entry, lease_id });
    return true;
  }

  /** Ask the model and run its tools until it has nothing more to run. */
  async #finishTurn(leaseId: string): Promise<void> {
    await this.#show("thinking");
    this.#turn = new AbortController();
    const { signal } = this.#turn;
    try {
      while (await this.#step(leaseId, signal));
    } catch (error) {
      if (error !== ABORTED) throw error;
      if (await this.#isUnfinished()) await this.#append(leaseId, new Answer().message("aborted"));
    }
    if ((await this.#client.usage(this.#session)).should_compact) await this.#compact(leaseId);
  }

  /** Ask the model once, store the answer, run its tools; return whether the turn goes on. */
  async #step(leaseId: string, signal: AbortSignal): Promise<boolean> {
    while (await this.#takePrompt(leaseId, "steer"));
    const answer = new Answer();
    try {
      for await (const text of this.#model.stream(await this.#context(), TOOLS, answer, signal)) {
        await this.#tell(text);
      }
    } catch (error) {
      if (error === ABORTED) await this.#append(leaseId, answer.message("aborted"));
      if (!(error instanceof ModelError)) throw error;
      await this.#append(leaseId, answer.message("error", error.message));
      return false;
    }
    await this.#append(leaseId, answer.message(answer.calls.length > 0 ? "toolUse" : "stop"));
    for (const call of answer.calls) {
      await this.#show("executing");
      await this.#append(leaseId, await runTool(call, this.#toolSeconds, signal));
    }
    await this.#show("thinking");
    return answer.calls.length > 0;
  }

  /** Signal a piece of the answer; a signal is never sent twice. */
  async #tell(text: string): Promise<void> {
    try {
      await this.#client.signal({ ...this.#session, kind: "delta", data: { text } });
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error;
    }
  }

  /** Have the context made smaller, by a summary that an agent of the session writes. */
  async #compact(lease_id: string): Promise<void> {
    await this.#show("compacting");
    try {
      await this.#client.compact({ ...this.#session, lease_id }, { timeoutMs: SUMMARY_MS });
    } catch (error) {
      // Without a summary the context stays as it is, and the next turn ends with another try.
      const isExpected = error instanceof RpcError || error instanceof ConnectionLost || error instanceof Timeout;
      if (!isExpected) throw error;
    }
  }

  /** Return what the model sees; of what the agent holds already, nothing travels again. */
  async #context(): Promise<unknown[]> {
    const known = { leaf_id: this.#leafId, count: this.#messages.length };
    const { messages, unchanged, leaf_id } = await this.#client.buildContext({
      ...this.#session,
      known,
      shape: "openai",
      repair: true,
      include: ["system"],
    });
    this.#messages.splice(unchanged, Infinity, ...messages);
    this.#leafId = leaf_id;
    return this.#messages;
  }

  /** Store a message under the lease, once, whatever happens to the connection. */
  async #append(lease_id: string, message: { role: string; [name: string]: unknown }): Promise<void> {
    await this.#client.append({ ...this.#session, message, lease_id });
  }

  // -- summaries ----------------------------------------------------------------------------

  /** Write summaries when the daemon asks for them. */
  async #summarize(offer: Offer): Promise<void> {
    for await (const asked of offer) void this.#writeSummary(asked);
  }

  /** Answer one request for a summary with the words of the model. */
  async #writeSummary(asked: Asked): Promise<void> {
    if (asked.request.method !== "client/summarize") return asked.passOn();
    const answer = new Answer();
    const prompt = [{ role: "user", content: asked.request.params.prompt }];
    try {
      for await (const _ of this.#model.stream(prompt, [], answer, asked.signal));
      asked.answer(answer.text);
    } catch {
      asked.passOn();
    }
  }
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    cwd: { type: "string", default: process.cwd() },
    name: { type: "string", default: "agent" },
    "tool-seconds": { type: "string", default: "30" },
    socket: { type: "string" },
  },
});
const [session] = positionals;
if (session === undefined || positionals.length > 1) throw new Error("name one session: 8 to 128 of A-Z a-z 0-9 _ -");
const environment = process.env;
const model = new Model(
  environment["OPENAI_BASE_URL"] ?? "http://127.0.0.1:8000/v1",
  environment["OPENAI_MODEL"] ?? "default",
  environment["OPENAI_API_KEY"] ?? "",
);
const client = await connect({ socket: values.socket, clientId: values.name });
await client.create({ cwd: values.cwd, session_id: session, if_exists: "open", persist: "immediate" });
await new Agent(client, session, model, Number(values["tool-seconds"])).run();
