import { type Disposable, type Tab, TabInputText, type Uri, window, workspace } from "vscode";
import { RpcError } from "sessiond-client";

import { complain, type Services } from "./services.js";
import { show } from "./show.js";

/** VS Code hands no larger file to extensions. */
const FILE_BYTES_MAX = 50 * 1024 * 1024;
/** VS Code refuses an editor if another one is opened meanwhile, as by the second of two clicks. */
const TRIES = 3;

/** Show the session of a file. */
export async function showFile(services: Services, path: string): Promise<void> {
  const { session } = await (await services.connection.client()).open({ path });
  await show(services, session.id);
}

/** Show the session in place of a session file that is too large for extensions. */
export function showLargeFiles(services: Services): Disposable {
  // Such a file makes no document: that is why the extension starts with the window, and not with the first document.
  const look = (tabs: readonly Tab[]): void => {
    for (const tab of tabs) {
      if (isSessionFile(tab.input)) replace(services, tab, tab.input.uri).catch(complain);
    }
  };
  look(window.tabGroups.all.flatMap((group) => group.tabs));
  return window.tabGroups.onDidChangeTabs(({ opened }) => look(opened));
}

async function replace(services: Services, tab: Tab, uri: Uri): Promise<void> {
  if (!workspace.getConfiguration("sessiond").get<boolean>("largeFiles")) return;
  if ((await workspace.fs.stat(uri)).size <= FILE_BYTES_MAX) return;
  for (let tried = 1, shown = false; !shown; tried++) {
    try {
      await showFile(services, uri.fsPath);
      shown = true;
    } catch (error) {
      // The file need not be a session: then it stays as VS Code shows it.
      if (error instanceof RpcError) return;
      if (tried === TRIES) throw error;
    }
  }
  await window.tabGroups.close(tab);
}

function isSessionFile(input: unknown): input is TabInputText {
  return input instanceof TabInputText && input.uri.scheme === "file" && input.uri.path.endsWith(".jsonl");
}
