/** The model of the example agent, behind any server of streaming chat completions. */

const SILENCE_MS = 120_000;

/** Lack of a usable answer; the text says why, without content. */
export class ModelError extends Error {}

/** A call of a tool; `arguments` is JSON text as the model wrote the text. */
export interface Call {
  id: string;
  name: string;
  arguments: string;
}

interface Delta {
  content?: string | null;
  tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
}

/** Return the arguments of a call; none if the model wrote no JSON object. */
export function decoded(call: Call): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(call.arguments || "{}");
    return typeof found === "object" && found !== null && !Array.isArray(found) ? { ...found } : {};
  } catch {
    return {};
  }
}

/** An answer as far as it has come. */
export class Answer {
  text = "";
  calls: Call[] = [];

  /** Add one part of the stream; return its text. */
  take(delta: Delta): string {
    for (const part of delta.tool_calls ?? []) {
      const call = (this.calls[part.index] ??= { id: "", name: "", arguments: "" });
      call.id += part.id ?? "";
      call.name += part.function?.name ?? "";
      call.arguments += part.function?.arguments ?? "";
    }
    const text = delta.content ?? "";
    this.text += text;
    return text;
  }

  /** Return the answer as a message to store; calls count only in a whole answer. */
  message(stop: "stop" | "toolUse" | "aborted" | "error", errorMessage?: string) {
    const content: Record<string, unknown>[] = this.text === "" ? [] : [{ type: "text", text: this.text }];
    for (const call of stop === "toolUse" ? this.calls : []) {
      content.push({ type: "toolCall", id: call.id, name: call.name, arguments: decoded(call) });
    }
    return { role: "assistant", content, stopReason: stop, ...(errorMessage === undefined ? {} : { errorMessage }) };
  }
}

/** A model, by its address and name. */
export class Model {
  readonly #url: string;
  readonly #name: string;
  readonly #key: string;

  constructor(baseUrl: string, name: string, key: string) {
    this.#url = `${baseUrl}/chat/completions`;
    this.#name = name;
    this.#key = key;
  }

  /** Ask the model; fill `answer` and yield each piece of text as it comes. Throws ModelError. */
  async *stream(messages: unknown[], tools: unknown[], answer: Answer, signal: AbortSignal): AsyncGenerator<string> {
    let isFinished = false;
    try {
      const response = await fetch(this.#url, {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${this.#key}` },
        body: JSON.stringify({
          model: this.#name,
          messages,
          stream: true,
          ...(tools.length > 0 ? { tools } : {}),
        }),
        signal: AbortSignal.any([signal, AbortSignal.timeout(SILENCE_MS)]),
      });
      if (!response.ok || response.body === null) throw new ModelError(`the model answered ${response.status}`);
      for await (const event of events(response.body)) {
        for (const { delta, finish_reason } of event.choices) {
          const text = answer.take(delta);
          if (text !== "") yield text;
          isFinished ||= finish_reason != null;
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ModelError) throw error;
      throw new ModelError(`the model's answer failed (${(error as Error).name})`, { cause: error });
    }
    if (!isFinished) throw new ModelError("the model's answer ended before its end");
  }
}

interface Chunk {
  choices: { delta: Delta; finish_reason?: string | null }[];
}

async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<Chunk> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const bytes of body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("data: ") && line.trim() !== "data: [DONE]") yield JSON.parse(line.slice(6)) as Chunk;
    }
  }
}
