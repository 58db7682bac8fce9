import { type DaemonInfo, difference } from "sessiond-client";
import { commands, window, workspace } from "vscode";

import type { Connection, Feeds, SessionList } from "../core/index.js";
import { isNoDaemon, sentence } from "../core/index.js";
import type { SessionFiles } from "./files.js";

/** The objects that the parts of the extension share. */
export interface Services {
  connection: Connection;
  feeds: Feeds;
  list: SessionList;
  files: SessionFiles;
}

/** Return the folders of the workspace, as the daemon names projects. */
export function folders(): string[] {
  const found = workspace.workspaceFolders ?? [];
  return found.filter((folder) => folder.uri.scheme === "file").map((folder) => folder.uri.fsPath);
}

/** Return the settings that name the daemon. */
export function settings(): { command?: string; socket?: string; profile?: string; home?: string } {
  const read = workspace.getConfiguration("sessiond");
  const named = ["command", "socket", "profile", "home"].map((name) => [name, read.get<string>(name)?.trim()]);
  return Object.fromEntries(named.filter(([, value]) => value));
}

/** Tell a person that the daemon is of another version, if it is. */
export function onDaemon(daemon: DaemonInfo): void {
  const text = difference(daemon);
  if (text !== undefined) void window.showWarningMessage(`sessiond: ${text}`);
}

/** Tell a person what failed. */
export async function complain(error: unknown): Promise<void> {
  if (!isNoDaemon(error)) {
    await window.showErrorMessage(`sessiond: ${sentence(error)}`);
    return;
  }
  const open = "Open Settings";
  const answer = await window.showErrorMessage(`sessiond: ${sentence(error)}`, open);
  if (answer === open) await commands.executeCommand("workbench.action.openSettings", "sessiond.command");
}
