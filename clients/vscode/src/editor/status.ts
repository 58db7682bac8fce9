import { type Disposable, StatusBarAlignment, window } from "vscode";

import { shortNumber, UsageFollow } from "../core/index.js";
import { placeOf } from "./place.js";
import type { Services } from "./services.js";

/** Show the tokens of the session in the active editor. */
export function showTokens({ connection, feeds }: Services): Disposable[] {
  const item = window.createStatusBarItem("sessiond.tokens", StatusBarAlignment.Right, 100);
  item.name = "sessiond: tokens";
  const follow = new UsageFollow(connection, feeds, (usage) => {
    if (usage === undefined) return item.hide();
    const { tokens, window: size, should_compact: isFull, totals } = usage;
    item.text = `$(comment-discussion) ${shortNumber(tokens)} / ${shortNumber(size)} tokens`;
    const cost = totals.cost > 0 ? `, cost ${totals.cost.toFixed(2)}` : "";
    const advice = isFull ? "\nThe window is nearly full: compact the session." : "";
    item.tooltip =
      `About ${tokens} of ${size} tokens of the model's window\n` +
      `All answers together: ${totals.total_tokens} tokens${cost}${advice}`;
    item.show();
  });
  const show = (): void => {
    const uri = window.activeTextEditor?.document.uri;
    const place = uri === undefined ? undefined : placeOf(uri);
    // A session that cannot be read has no tokens to show; its document says why.
    follow.show(place?.sessionId).catch(() => item.hide());
  };
  show();
  return [item, follow, window.onDidChangeActiveTextEditor(show)];
}
