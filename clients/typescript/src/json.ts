import { ProtocolViolation } from "./errors.js";
import { LINE_BYTES_MAX } from "./limits.js";

const NEWLINE = 10;

/**
 * Return the JSON text of a value.
 *
 * Throws a TypeError that names the member, for what JSON cannot carry and `JSON.stringify` would
 * change without a word: NaN, an infinity, a function or symbol, undefined in a list; and for a BigInt
 * or a cycle.
 */
export function encode(value: unknown): string {
  return JSON.stringify(value, function (this: unknown, name: string, member: unknown): unknown {
    switch (typeof member) {
      case "number":
        if (!Number.isFinite(member)) throw new TypeError(`${name}: ${member} is no JSON`);
        return member;
      case "bigint":
      case "function":
      case "symbol":
        throw new TypeError(`${name}: a ${typeof member} is no JSON`);
      case "undefined":
        if (Array.isArray(this)) throw new TypeError(`[${name}]: undefined is no JSON`);
        return member;
      default:
        return member;
    }
  });
}

/** The lines of a stream of bytes; each line is decoded once, as a whole. */
export class Lines {
  #parts: Buffer[] = [];
  #size = 0;

  /** Take a chunk; yield the value of each line that the chunk completes. */
  *take(chunk: Buffer): Generator<unknown> {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      this.#parts.push(chunk.subarray(from, end));
      const line = this.#parts.length === 1 ? chunk.subarray(from, end) : Buffer.concat(this.#parts);
      this.#parts = [];
      this.#size = 0;
      from = end + 1;
      if (line.length > 0) yield decode(line);
    }
    const rest = chunk.subarray(from);
    this.#size += rest.length;
    if (this.#size > LINE_BYTES_MAX) throw new ProtocolViolation(`a line of over ${LINE_BYTES_MAX} bytes`);
    if (rest.length > 0) this.#parts.push(rest);
  }
}

function decode(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString("utf8"));
  } catch (error) {
    throw new ProtocolViolation("a line that is no JSON", { cause: error });
  }
}
