/** A command that pi has in its terminal only: go to an entry of the tree. */
import type { ExtensionAPI } from "@mariozechner/pi-coding-agent";

export default function goto(pi: ExtensionAPI): void {
  pi.registerCommand("goto", {
    handler: async (entryId, ctx) => {
      await ctx.navigateTree(entryId.trim());
    },
  });
}
