import {
  commands,
  type Disposable,
  EventEmitter,
  ThemeIcon,
  type TreeDataProvider,
  TreeItem,
  TreeItemCollapsibleState,
  type TreeView,
  window,
} from "vscode";
import type { SessionInfo } from "sessiond-client";

import { detailsOf, isNoDaemon, type Outline, type Row, sentence, SessionOutline, titleOf } from "../core/index.js";
import type { Services } from "./services.js";

/** A line of the view. */
export type Node =
  | { kind: "session"; info: SessionInfo }
  | { kind: "entry"; info: SessionInfo; row: Row }
  | { kind: "branch"; info: SessionInfo; rows: Row[] }
  | { kind: "cut"; info: SessionInfo };

const ICONS: Readonly<Record<string, string>> = {
  user: "account",
  assistant: "sparkle",
  tool: "tools",
  message: "comment",
  compaction: "fold",
  branch_summary: "git-merge",
  "branch summary": "git-merge",
  custom_message: "comment-unresolved",
};

/** The sessions of the workspace, with the entries of those that are unfolded. */
export class SessionTree implements TreeDataProvider<Node>, Disposable {
  readonly #changes = new EventEmitter<Node | undefined>();
  readonly #nodes = new Map<string, Node & { kind: "session" }>();
  readonly #outlines = new Map<string, SessionOutline>();
  readonly #view: TreeView<Node>;
  #isListed = false;
  readonly onDidChangeTreeData = this.#changes.event;

  constructor(private readonly services: Services) {
    this.#view = window.createTreeView<Node>("sessiond.sessions", { treeDataProvider: this, showCollapseAll: true });
    this.#view.onDidCollapseElement(({ element }) => {
      if (element.kind === "session") this.#fold(element.info.id);
    });
  }

  dispose(): void {
    this.#view.dispose();
    for (const id of [...this.#outlines.keys()]) this.#fold(id);
  }

  /** Show the list as it is now. */
  listChanged(error?: unknown): void {
    this.#tell(error);
    this.#changes.fire(undefined);
  }

  /** Read the list anew, after a failure or for other folders. */
  reload(): void {
    this.#isListed = false;
    this.#changes.fire(undefined);
  }

  async getChildren(element?: Node): Promise<Node[]> {
    switch (element?.kind) {
      case undefined:
        return this.#sessions();
      case "session":
        return this.#entries(element);
      case "entry":
        return element.row.branches.map((rows) => ({ kind: "branch", info: element.info, rows }));
      case "branch":
        return element.rows.map((row) => ({ kind: "entry", info: element.info, row }));
      case "cut":
        return [];
    }
  }

  getTreeItem(element: Node): TreeItem {
    const item = itemOf(element);
    item.contextValue = element.kind;
    if (element.kind === "session") item.id = element.info.id;
    else if (element.kind === "entry") item.id = `${element.info.id} ${element.row.entryId}`;
    else if (element.kind === "branch") item.id = `${element.info.id} from ${element.rows[0]?.entryId}`;
    if (element.kind !== "branch") {
      item.command = { title: "Open", command: "sessiond.sessions.open", arguments: [element] };
    }
    return item;
  }

  async #sessions(): Promise<Node[]> {
    const { list } = this.services;
    if (!this.#isListed) {
      this.#isListed = true;
      try {
        await list.refresh();
      } catch (error) {
        this.#isListed = false;
        this.#tell(error);
        return [];
      }
    }
    const gone = new Set(this.#nodes.keys());
    const nodes = list.sessions.map((info) => {
      gone.delete(info.id);
      const node = this.#nodes.get(info.id) ?? { kind: "session" as const, info };
      node.info = info;
      this.#nodes.set(info.id, node);
      return node;
    });
    for (const id of gone) {
      this.#nodes.delete(id);
      this.#fold(id);
    }
    return nodes;
  }

  async #entries(element: Node & { kind: "session" }): Promise<Node[]> {
    const { info } = element;
    let outline = this.#outlines.get(info.id);
    if (outline === undefined) {
      const { connection, feeds } = this.services;
      outline = new SessionOutline(connection, feeds, info.id, () => this.#changes.fire(element));
      this.#outlines.set(info.id, outline);
    }
    try {
      return nodesOf(info, await outline.read());
    } catch (error) {
      this.#fold(info.id);
      this.#view.message = sentence(error);
      return [];
    }
  }

  #fold(sessionId: string): void {
    this.#outlines.get(sessionId)?.stop();
    this.#outlines.delete(sessionId);
  }

  #tell(error: unknown): void {
    // The text for an empty view offers what helps.
    void commands.executeCommand("setContext", "sessiond.noDaemon", isNoDaemon(error));
    // The type of the member does not allow for undefined, which clears the message.
    (this.#view as { message: string | undefined }).message = error === undefined ? undefined : sentence(error);
  }
}

function nodesOf(info: SessionInfo, { rows, branches, isCut }: Outline): Node[] {
  const cut: Node[] = isCut ? [{ kind: "cut", info }] : [];
  return [
    ...cut,
    ...branches.map((branch): Node => ({ kind: "branch", info, rows: branch })),
    ...rows.map((row): Node => ({ kind: "entry", info, row })),
  ];
}

function itemOf(element: Node): TreeItem {
  switch (element.kind) {
    case "session": {
      const item = new TreeItem(titleOf(element.info), TreeItemCollapsibleState.Collapsed);
      item.iconPath = new ThemeIcon("comment-discussion");
      item.description = detailsOf(element.info);
      item.tooltip = `${titleOf(element.info)}\n${element.info.cwd}\n${element.info.id}`;
      return item;
    }
    case "branch": {
      const [first] = element.rows;
      const item = new TreeItem(first?.preview || first?.kind || "branch", TreeItemCollapsibleState.Collapsed);
      item.iconPath = new ThemeIcon("git-branch");
      item.description = `branch of ${element.rows.length}`;
      return item;
    }
    case "entry": {
      const { row } = element;
      const isFork = row.branches.length > 0;
      const state = isFork ? TreeItemCollapsibleState.Collapsed : TreeItemCollapsibleState.None;
      const item = new TreeItem(row.preview || row.kind, state);
      item.iconPath = new ThemeIcon(ICONS[row.kind] ?? "circle-small");
      const label = row.label === null ? [] : [`[${row.label}]`];
      item.description = [...label, ...row.heads.map((head) => `◀ ${head}`)].join(" ");
      item.tooltip = `#${row.seq} ${row.kind}`;
      return item;
    }
    case "cut":
      return new TreeItem("… earlier entries");
  }
}
