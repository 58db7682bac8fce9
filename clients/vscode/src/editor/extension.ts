/** The extension: this folder holds what needs the editor, `core` what does not. */
import { commands, type ExtensionContext, Uri, window, workspace } from "vscode";

import { Connection, Feeds, SessionList } from "../core/index.js";
import { append, appendSelection, branch, fork, label, newSession } from "./changes.js";
import { SessionFiles } from "./files.js";
import { SessionLanguage } from "./language.js";
import { showFile, showLargeFiles } from "./large_files.js";
import { SCHEME } from "./place.js";
import { readComfortably } from "./reading.js";
import { searchSessions } from "./search.js";
import { complain, folders, onDaemon, type Services, settings } from "./services.js";
import { show, showEarlier } from "./show.js";
import { showTokens } from "./status.js";
import { targetOf } from "./targets.js";
import { SessionTree } from "./tree.js";

export function activate({ subscriptions }: ExtensionContext): void {
  let isOfWorkspace = true;
  const connection = new Connection(() => ({ clientId: `vscode-${process.pid}`, onDaemon, ...settings() }));
  const feeds = new Feeds(connection);
  const files = new SessionFiles(connection, feeds);
  const list = new SessionList(
    connection,
    () => (isOfWorkspace ? folders() : undefined),
    (error) => tree.listChanged(error),
  );
  const services: Services = { connection, feeds, list, files };
  const tree = new SessionTree(services);

  const showSessionsOf = (scope: "workspace" | "all"): void => {
    isOfWorkspace = scope === "workspace";
    void commands.executeCommand("setContext", "sessiond.scope", scope);
    tree.reload();
  };
  const acts: Record<string, (...clicked: unknown[]) => unknown> = {
    open: async (clicked) => {
      const target = await targetOf(services, clicked);
      if (target === undefined) return;
      const { sessionId, seq } = target;
      await show(services, sessionId, seq === undefined ? {} : { seq });
    },
    openAt: (sessionId, beforeSeq) =>
      show(services, String(sessionId), beforeSeq === undefined ? {} : { beforeSeq: Number(beforeSeq) }),
    earlier: () => showEarlier(services),
    openFile: async (clicked) => {
      const uri = clicked instanceof Uri ? clicked : window.activeTextEditor?.document.uri;
      if (uri !== undefined) await showFile(services, uri.fsPath);
    },
    new: () => newSession(services),
    append: (clicked) => append(services, clicked),
    appendSelection: () => appendSelection(services),
    branch: (clicked) => branch(services, clicked),
    label: (clicked) => label(services, clicked),
    fork: (clicked) => fork(services, clicked),
    search: () => searchSessions(services),
    showAll: () => showSessionsOf("all"),
    showWorkspace: () => showSessionsOf("workspace"),
    reload: () => tree.reload(),
  };
  showSessionsOf("workspace");
  subscriptions.push(
    ...Object.entries(acts).map(([name, act]) =>
      commands.registerCommand(`sessiond.sessions.${name}`, async (...clicked: unknown[]) => {
        try {
          await act(...clicked);
        } catch (error) {
          void complain(error);
        }
      }),
    ),
    workspace.registerFileSystemProvider(SCHEME, files, { isReadonly: true, isCaseSensitive: true }),
    workspace.onDidChangeWorkspaceFolders(() => tree.reload()),
    ...readComfortably(files),
    ...showTokens(services),
    showLargeFiles(services),
    new SessionLanguage(),
    // In this order: views let go of their follows before the connection ends.
    tree,
    list,
    files,
    connection,
  );
}
