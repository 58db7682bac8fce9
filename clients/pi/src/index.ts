/** The extension: pi's events go to the attachment of the session that pi has open. */
import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";

import { Attachment } from "./attachment.ts";

/** Register the handlers and the command. pi calls this again for every session that pi opens. */
export default function sessiond(pi: ExtensionAPI): void {
  let attachment: Attachment | undefined;

  pi.on("session_start", (event, ctx) => {
    // In RPC mode pi may tell the start of one session twice.
    attachment?.end();
    attachment = new Attachment(pi, ctx, event.reason);
    attachment.attach();
  });
  pi.on("session_shutdown", () => {
    attachment?.end();
    attachment = undefined;
  });

  // pi makes the file of a new session with the first answer. These events come after the answer is stored.
  pi.on("tool_execution_start", () => attachment?.works("executing"));
  pi.on("turn_end", () => attachment?.attach());
  pi.on("session_compact", () => attachment?.attach());
  pi.on("session_tree", () => attachment?.attach());

  pi.on("agent_start", () => {
    attachment?.retry();
    attachment?.works("thinking");
  });
  pi.on("turn_start", () => attachment?.works("thinking"));
  pi.on("agent_end", () => attachment?.works("idle"));
  pi.on("model_select", () => attachment?.announce());

  pi.registerCommand("sessiond", {
    description: "Show who else is in this session; `/sessiond reload` reads the session's file again",
    handler: async (words, ctx) => {
      const file = ctx.sessionManager.getSessionFile();
      if (words.trim() === "reload" && file !== undefined) {
        await ctx.waitForIdle();
        await ctx.switchSession(file);
        return;
      }
      attachment?.retry();
      tell(ctx, attachment?.status() ?? "sessiond: no session");
    },
  });
}

function tell(ctx: ExtensionContext, text: string): void {
  if (ctx.hasUI) ctx.ui.notify(text, "info");
}
