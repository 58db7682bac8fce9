import type { Client, FlatNode, HeadInfo, PathEntry } from "sessiond-client";

import type { Connection } from "./connection.js";
import type { Feeds, Watch } from "./feeds.js";
import { Refresher } from "./refresher.js";
import { parts, preview } from "./render.js";

/** A session with more entries is shown by the newest entries of main's path. */
export const TREE_ENTRIES_MAX = 2000;
export const PATH_ENTRIES_MAX = 200;

/** An entry in the outline of a session. */
export interface Row {
  entryId: string;
  seq: number;
  /** The role of a message, or the type of another entry. */
  kind: string;
  preview: string;
  label: string | null;
  isOnMain: boolean;
  /** The names of the heads that stand here. */
  heads: string[];
  /** The ways that leave the list of rows at this entry. */
  branches: Row[][];
}

export interface Outline {
  rows: Row[];
  /** Ways that begin beside the first entry. */
  branches: Row[][];
  /** True if earlier entries are left out. */
  isCut: boolean;
}

/** Read the outline of a session: its tree, or of a long session the end of main's path. */
export async function readOutline(client: Client, sessionId: string): Promise<Outline> {
  const session = { session_id: sessionId };
  const [tree, { heads }] = await Promise.all([
    client.tree({ ...session, form: "flat", limit: TREE_ENTRIES_MAX }),
    client.heads(session),
  ]);
  if ("nodes" in tree && tree.next_cursor === null) return outlineOfTree(tree.nodes, heads);
  const path = await client.path({ ...session, head: "main", limit: PATH_ENTRIES_MAX, from_end: true });
  return { ...outlineOfPath(path.entries, heads), isCut: true };
}

/** Return the outline of a tree in pre-order: the first child goes on in the list of its parent, others branch off. */
export function outlineOfTree(nodes: readonly FlatNode[], heads: readonly HeadInfo[]): Outline {
  const outline: Outline = { rows: [], branches: [], isCut: false };
  const seen = new Map<string, { row: Row; list: Row[]; hasChild: boolean }>();
  for (const node of nodes) {
    const { id, seq, type, role, label } = node;
    const row: Row = {
      ...{ entryId: id, seq, kind: role ?? type, preview: node.preview, label },
      ...{ isOnMain: node.on_active_path, heads: namesAt(id, heads), branches: [] },
    };
    const parent = seen.get((node.resolved_parent_id ?? node.parent_id) || "");
    const isFirst = parent === undefined ? outline.rows.length === 0 : !parent.hasChild;
    let list = parent?.list ?? outline.rows;
    if (!isFirst) {
      list = [];
      (parent?.row ?? outline).branches.push(list);
    }
    if (parent !== undefined) parent.hasChild = true;
    list.push(row);
    seen.set(id, { row, list, hasChild: false });
  }
  return outline;
}

/** Return the outline of a path, root first. */
export function outlineOfPath(entries: readonly PathEntry[], heads: readonly HeadInfo[]): Outline {
  const rows = entries.map(({ seq, entry, label }): Row => {
    const kind = parts(entry).who;
    const place = { heads: namesAt(entry.id, heads), isOnMain: true, branches: [] };
    return { entryId: entry.id, seq, kind, preview: preview(entry), label, ...place };
  });
  return { rows, branches: [], isCut: false };
}

function namesAt(entryId: string, heads: readonly HeadInfo[]): string[] {
  return heads.filter((head) => head.leaf_id === entryId).map((head) => head.name);
}

/** The outline of one session, which follows the session while it is shown. */
export class SessionOutline {
  #outline: Outline | undefined;
  #watch: Watch | undefined;
  #isStopped = false;
  readonly #refresher: Refresher;

  constructor(
    private readonly connection: Connection,
    private readonly feeds: Feeds,
    private readonly sessionId: string,
    private readonly changed: () => void,
  ) {
    this.#refresher = new Refresher(
      () => this.#refresh(),
      () => undefined, // the next event asks again
    );
  }

  /** Return the outline, read at the first call; its changes are told from then on. */
  async read(): Promise<Outline> {
    if (this.#watch === undefined) {
      const refresh = (): void => this.#refresher.request();
      const listener = { onEntry: refresh, onReplaced: refresh, onEnd: () => undefined };
      const watch = await this.feeds.watch(this.sessionId, listener);
      if (this.#isStopped || this.#watch !== undefined) watch.stop();
      else this.#watch = watch;
    }
    return (this.#outline ??= await readOutline(await this.connection.client(), this.sessionId));
  }

  stop(): void {
    this.#isStopped = true;
    this.#refresher.dispose();
    this.#watch?.stop();
  }

  async #refresh(): Promise<void> {
    const client = await this.connection.client();
    this.#outline = await readOutline(client, this.sessionId);
    this.changed();
  }
}
