import { env, window } from "vscode";

import { isOutcomeUnknown, OutgoingMessage, sentence } from "../core/index.js";
import { folders, type Services } from "./services.js";
import { show } from "./show.js";
import { entryOf, headOf, type Target, targetOf } from "./targets.js";

/** Make a session of the workspace, and show it. */
export async function newSession(services: Services): Promise<void> {
  const known = folders();
  const cwd = known.length > 1 ? await window.showQuickPick(known, { placeHolder: "Of which folder?" }) : known[0];
  if (cwd === undefined) {
    if (known.length === 0) await window.showInformationMessage("sessiond: open a folder: a session belongs to one.");
    return;
  }
  const title = await window.showInputBox({ prompt: "Title of the new session (may be empty)" });
  if (title === undefined) return;
  const client = await services.connection.client();
  const named = title.trim() === "" ? {} : { title: title.trim() };
  const { session } = await client.create({ cwd, persist: "immediate", ...named });
  await show(services, session.id);
}

/** Append a message that the person types. */
export async function append(services: Services, clicked: unknown): Promise<void> {
  const target = await targetOf(services, clicked);
  if (target === undefined) return;
  const text = await window.showInputBox({ prompt: `Message to “${target.title}”`, ignoreFocusOut: true });
  if (text !== undefined && text.trim() !== "") await send(services, target, text);
}

/** Append the selected text of the active editor. */
export async function appendSelection(services: Services): Promise<void> {
  const editor = window.activeTextEditor;
  const text = editor?.document.getText(editor.selection) ?? "";
  if (text.trim() === "") {
    await window.showInformationMessage("sessiond: select the text that you want to append.");
    return;
  }
  const target = await targetOf(services, undefined);
  if (target !== undefined) await send(services, target, text);
}

/** Move a head to an entry, or make one there. */
export async function branch(services: Services, clicked: unknown): Promise<void> {
  const target = await targetOf(services, clicked);
  if (target === undefined) return;
  const entryId = await entryOf(services, target, "From which entry?");
  if (entryId === undefined) return;
  const client = await services.connection.client();
  const { heads } = await client.heads({ session_id: target.sessionId });
  const head = await window.showInputBox({
    prompt: "Name of the new branch, or main: the next messages of main then follow this entry",
    validateInput: (name) => {
      if (!/^[A-Za-z0-9_./:-]{1,64}$/.test(name)) return "1 to 64 letters, digits, and _ . / : -";
      return name !== "main" && heads.some((one) => one.name === name) ? "There is a head of this name." : undefined;
    },
  });
  if (head === undefined) return;
  await client.branch({ session_id: target.sessionId, entry_id: entryId, head });
  window.setStatusBarMessage(head === "main" ? "main moved" : `Branch ${head} made`, 4000);
}

/** Set or clear the label of an entry. */
export async function label(services: Services, clicked: unknown): Promise<void> {
  const target = await targetOf(services, clicked);
  if (target === undefined) return;
  const entryId = await entryOf(services, target, "Which entry?");
  if (entryId === undefined) return;
  const client = await services.connection.client();
  const at = { session_id: target.sessionId, entry_id: entryId };
  const value = (await client.entry(at)).label ?? "";
  const text = await window.showInputBox({ prompt: "Label of the entry; an empty one clears it", value });
  if (text === undefined) return;
  await client.label({ ...at, label: text.trim() === "" ? null : text.trim() });
  window.setStatusBarMessage(text.trim() === "" ? "Label cleared" : "Label set", 4000);
}

/** Make a new session of the path to an entry, or of the whole session, and show the new one. */
export async function fork(services: Services, clicked: unknown): Promise<void> {
  const target = await targetOf(services, clicked);
  if (target === undefined) return;
  const title = await window.showInputBox({
    prompt: target.entryId === undefined ? "Title of the fork" : "Title of the fork up to this entry",
    value: `${target.title} (fork)`,
  });
  if (title === undefined) return;
  const client = await services.connection.client();
  const at = target.entryId === undefined ? {} : { at: target.entryId };
  const named = title.trim() === "" ? {} : { title: title.trim() };
  const { session, notes = [] } = await client.fork({ session_id: target.sessionId, ...at, ...named });
  await show(services, session.id);
  if (notes.length > 0) await window.showInformationMessage(`sessiond: ${notes.join("; ")}`);
}

/** Append a text, and again if the person wants it and the outcome is not known: it is stored once. */
async function send(services: Services, target: Target, text: string): Promise<void> {
  const head = await headOf(services, target);
  if (head === undefined) return;
  const message = new OutgoingMessage(services.connection, { session_id: target.sessionId, head }, text);
  for (;;) {
    try {
      await message.append();
      return;
    } catch (error) {
      const [again, copy] = ["Try Again", "Copy Text"];
      const unknown = "It is not known whether the message is stored; to try again is safe.";
      const why = isOutcomeUnknown(error) ? unknown : sentence(error);
      const answer = await window.showErrorMessage(`sessiond: ${why}`, again, copy);
      if (answer === copy) await env.clipboard.writeText(text);
      if (answer !== again) return;
    }
  }
}
