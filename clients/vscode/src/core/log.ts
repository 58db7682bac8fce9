import type { Client, SessiondError } from "sessiond-client";

import type { Connection } from "./connection.js";
import type { Feeds, Watch } from "./feeds.js";
import { type Block, block } from "./render.js";

/** A document has at most so many entries: VS Code hands no document over 50 MB to extensions. */
export const PAGE_ENTRIES = 400;
export const PAGE_CHARACTERS_MAX = 4_000_000;
/** Old entries leave a document by so many at once, so that lines seldom move under a reader. */
const TRIM_ENTRIES = 100;

/** A text whose lines belong to entries. */
export class Snapshot {
  readonly text: string;
  readonly #starts: number[] = [];

  constructor(
    private readonly blocks: readonly Block[],
    notes: readonly string[],
  ) {
    let line = notes.length;
    for (const one of blocks) {
      this.#starts.push(line);
      line += one.lines.length;
    }
    this.text = [...notes, ...blocks.flatMap((one) => one.lines)].join("\n");
  }

  /** The number of entries. */
  get size(): number {
    return this.blocks.length;
  }

  get firstSeq(): number | undefined {
    return this.blocks[0]?.seq;
  }

  /** Return the entry of a line; undefined for a line above the first entry. */
  entryAt(line: number): { entryId: string; seq: number } | undefined {
    const index = this.#starts.findLastIndex((start) => start <= line);
    return this.blocks[index];
  }

  /** Return the line at which an entry begins, or the one in whose place it would be. */
  lineOf(seq: number): number {
    const index = this.blocks.findIndex((one) => one.seq >= seq);
    return this.#starts[index] ?? this.#starts.at(-1) ?? 0;
  }

  /** Return the line of each heading, with the text of the heading. */
  headings(): { line: number; end: number; text: string }[] {
    return this.blocks.map(({ lines }, index) => {
      const line = this.#starts[index] ?? 0;
      return { line, end: line + lines.length - 2, text: lines[0] ?? "" };
    });
  }
}

/** Return the entries before a line of the log, as many as a document takes. */
export async function readBlocks(client: Client, sessionId: string, beforeSeq: number): Promise<Block[]> {
  const page = await client.entries({ session_id: sessionId, before_seq: beforeSeq, limit: PAGE_ENTRIES });
  const newestFirst = page.entries.map(({ seq, entry }) => block(seq, entry, headOf(entry)));
  let characters = 0;
  const fits = newestFirst.filter((one, index) => {
    characters += size(one);
    return index === 0 || characters <= PAGE_CHARACTERS_MAX;
  });
  return fits.reverse();
}

/** Return the entries before a line of the log, as a text that stays as it is. */
export async function readPage(connection: Connection, sessionId: string, beforeSeq: number): Promise<Snapshot> {
  const blocks = await readBlocks(await connection.client(), sessionId, beforeSeq);
  return new Snapshot(blocks, earlier(blocks));
}

/** The newest entries of a session, which follow the session. */
export class SessionLog {
  #blocks: Block[] = [];
  #characters = 0;
  #watch: Watch | undefined;
  #isStopped = false;
  #note: string | undefined;
  /** Entries that came while the stored ones were read. */
  #early: Block[] | undefined = [];

  constructor(
    private readonly connection: Connection,
    private readonly feeds: Feeds,
    readonly sessionId: string,
    private readonly changed: () => void,
  ) {}

  /** Read the newest entries, and follow from there. */
  async start(): Promise<void> {
    const client = await this.connection.client();
    const watch = await this.feeds.watch(this.sessionId, {
      onEntry: ({ seq, entry, head }) => this.#take(block(seq, entry, head)),
      onReplaced: () => this.#replace(),
      onEnd: (error) => this.#end(error),
    });
    this.#watch = watch;
    if (this.#isStopped) return watch.stop();
    try {
      const stored = await readBlocks(client, this.sessionId, watch.seq + 1);
      if (this.#early !== undefined) this.#set([...stored, ...this.#early]);
      this.#early = undefined;
    } catch (error) {
      watch.stop();
      throw error;
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#watch?.stop();
  }

  snapshot(): Snapshot {
    const notes = this.#note === undefined ? [] : [this.#note, ""];
    return new Snapshot(this.#blocks, [...notes, ...earlier(this.#blocks)]);
  }

  #take(one: Block): void {
    if (this.#early !== undefined) {
      this.#early.push(one);
      return;
    }
    this.#blocks.push(one);
    this.#characters += size(one);
    if (this.#blocks.length >= PAGE_ENTRIES + TRIM_ENTRIES || this.#characters > PAGE_CHARACTERS_MAX) {
      this.#set(this.#blocks);
    }
    this.changed();
  }

  #replace(): void {
    // Everything comes again: what was being read is of the file that is no more.
    this.#early = undefined;
    this.#set([]);
    this.changed();
  }

  #end(error: SessiondError): void {
    this.#note = `This session is followed no more: ${error.message}`;
    this.changed();
  }

  /** Keep the newest of the blocks. */
  #set(blocks: Block[]): void {
    let from = Math.max(0, blocks.length - PAGE_ENTRIES);
    this.#characters = blocks.slice(from).reduce((sum, one) => sum + size(one), 0);
    while (this.#characters > (PAGE_CHARACTERS_MAX * 3) / 4 && from < blocks.length - 1) {
      this.#characters -= size(blocks[from] as Block);
      from += 1;
    }
    this.#blocks = blocks.slice(from);
  }
}

function earlier(blocks: readonly Block[]): string[] {
  const count = (blocks[0]?.seq ?? 1) - 1;
  return count > 0 ? [`… ${count} earlier ${count === 1 ? "entry" : "entries"}`, ""] : [];
}

function size({ lines }: Block): number {
  return lines.reduce((sum, line) => sum + line.length + 1, 0);
}

function headOf(entry: object): string | undefined {
  const { head } = entry as { head?: unknown };
  return typeof head === "string" ? head : undefined;
}
