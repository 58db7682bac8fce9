import { type QuickPickItem, Uri, window } from "vscode";
import type { SessionInfo } from "sessiond-client";

import { detailsOf, readOutline, titleOf } from "../core/index.js";
import { placeOf } from "./place.js";
import type { Services } from "./services.js";
import type { Node } from "./tree.js";

/** The session that a command is for, and the entry, if one was pointed at. */
export interface Target {
  sessionId: string;
  title: string;
  entryId: string | undefined;
  seq: number | undefined;
}

/** Return the target of a command: what was clicked, what the active editor shows, or what the person picks. */
export async function targetOf(services: Services, clicked: unknown): Promise<Target | undefined> {
  if (isNode(clicked)) return ofNode(clicked);
  return ofEditor(services) ?? (await pickSession(services));
}

/** Return an entry of the target: the one that was pointed at, or the one that the person picks. */
export async function entryOf(services: Services, target: Target, placeHolder: string): Promise<string | undefined> {
  if (target.entryId !== undefined) return target.entryId;
  const client = await services.connection.client();
  const { rows } = await readOutline(client, target.sessionId);
  const items = rows.reverse().map((row) => ({
    label: row.preview || row.kind,
    description: [`#${row.seq}`, ...(row.label === null ? [] : [`[${row.label}]`])].join(" "),
    entryId: row.entryId,
  }));
  return (await window.showQuickPick(items, { placeHolder, matchOnDescription: true }))?.entryId;
}

/** Return a head of the target; the person picks one where there are several. */
export async function headOf(services: Services, target: Target): Promise<string | undefined> {
  const { heads } = await (await services.connection.client()).heads({ session_id: target.sessionId });
  if (heads.length < 2) return "main";
  const names = heads.map(({ name }) => name);
  return window.showQuickPick(names, { placeHolder: "To which head?" });
}

/** Return the title of a session for the name of a tab. */
export async function titleFor({ list, connection }: Services, sessionId: string): Promise<string> {
  const known = list.sessions.find((info) => info.id === sessionId);
  if (known !== undefined) return titleOf(known);
  const { session } = await (await connection.client()).get({ session_id: sessionId });
  return titleOf(session);
}

function isNode(clicked: unknown): clicked is Node {
  return typeof clicked === "object" && clicked !== null && "kind" in clicked && "info" in clicked;
}

function ofNode(node: Node): Target {
  const row = node.kind === "entry" ? node.row : node.kind === "branch" ? node.rows[0] : undefined;
  return { ...ofSession(node.info), entryId: row?.entryId, seq: row?.seq };
}

function ofSession(info: SessionInfo): Target {
  return { sessionId: info.id, title: titleOf(info), entryId: undefined, seq: undefined };
}

function ofEditor({ files }: Services): Target | undefined {
  const editor = window.activeTextEditor;
  const uri = editor?.document.uri ?? Uri.file("/");
  const place = placeOf(uri);
  if (editor === undefined || place === undefined) return undefined;
  const entry = files.shown(uri)?.entryAt(editor.selection.active.line);
  const title = uri.path.split("/").at(-1) ?? place.sessionId;
  return { sessionId: place.sessionId, title, entryId: entry?.entryId, seq: entry?.seq };
}

async function pickSession({ list }: Services): Promise<Target | undefined> {
  await list.refresh();
  const items = list.sessions.map((info): QuickPickItem & { info: SessionInfo } => ({
    label: titleOf(info),
    description: detailsOf(info),
    detail: info.cwd,
    info,
  }));
  const picked = await window.showQuickPick(items, { placeHolder: "Which session?", matchOnDetail: true });
  return picked === undefined ? undefined : ofSession(picked.info);
}
