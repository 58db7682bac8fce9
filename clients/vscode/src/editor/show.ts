import { Position, Range, Selection, TabInputText, TextEditorRevealType, type Uri, window } from "vscode";

import { addressOf, placeOf } from "./place.js";
import { type Services } from "./services.js";
import { titleFor } from "./targets.js";

/** Show a session: its newest entries, those before a line of its log, or the page with an entry. */
export async function show(
  services: Services,
  sessionId: string,
  at: { beforeSeq?: number; seq?: number } = {},
): Promise<void> {
  const { beforeSeq } = at;
  const uri =
    openAddress(sessionId, beforeSeq) ?? addressOf(sessionId, await titleFor(services, sessionId), beforeSeq);
  const editor = await window.showTextDocument(uri, { preview: false });
  const { seq } = at;
  if (seq === undefined) {
    // A session is read from its end.
    if (beforeSeq === undefined) put(editor.document.lineCount - 1);
    return;
  }
  const shown = services.files.shown(uri);
  if (beforeSeq === undefined && shown !== undefined && seq < (shown.firstSeq ?? 0)) {
    await show(services, sessionId, { beforeSeq: seq + 1, seq });
    return;
  }
  put(shown?.lineOf(seq) ?? 0, TextEditorRevealType.InCenterIfOutsideViewport);

  function put(line: number, type = TextEditorRevealType.Default): void {
    const position = new Position(line, 0);
    editor.selection = new Selection(position, position);
    editor.revealRange(new Range(position, position), type);
  }
}

/** Show the page before the first entry of the active document. */
export async function showEarlier(services: Services): Promise<void> {
  const uri = window.activeTextEditor?.document.uri;
  const place = uri && placeOf(uri);
  if (uri === undefined || place === undefined) return;
  const first = services.files.shown(uri)?.firstSeq;
  if (first === undefined || first === 1) {
    window.setStatusBarMessage("There are no earlier entries", 4000);
    return;
  }
  await show(services, place.sessionId, { beforeSeq: first });
}

/** Return the address under which a session is open: its title may have changed since. */
function openAddress(sessionId: string, beforeSeq: number | undefined): Uri | undefined {
  const tabs = window.tabGroups.all.flatMap((group) => group.tabs);
  const addresses = tabs.flatMap(({ input }) => (input instanceof TabInputText ? [input.uri] : []));
  return addresses.find((uri) => {
    const place = placeOf(uri);
    return place?.sessionId === sessionId && place.beforeSeq === beforeSeq;
  });
}
