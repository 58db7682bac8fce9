/** The one tool of the example agent: a command of the shell, bounded in time and output. */
import { spawn } from "node:child_process";

import { type Call, decoded } from "./model.ts";

const OUTPUT_BYTES = 64 * 1024;

export const TOOLS = [
  {
    type: "function",
    function: {
      name: "run",
      description: "Run a shell command.",
      parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
    },
  },
];

/** Run a tool that the model called; return the message with its result. */
export async function runTool(call: Call, seconds: number, signal: AbortSignal) {
  const { command } = decoded(call);
  const [text, isError] =
    call.name === "run" && typeof command === "string"
      ? await run(command, seconds, signal)
      : (["There is one tool, run, with a text as its command.", true] as const);
  return { role: "toolResult", toolCallId: call.id, toolName: call.name, content: [{ type: "text", text }], isError };
}

/** Return the output of a shell command, and whether the command failed. */
function run(command: string, seconds: number, signal: AbortSignal): Promise<[string, boolean]> {
  return new Promise((fulfil, reject) => {
    const child = spawn("/bin/sh", ["-c", `exec 2>&1; ${command}`], {
      stdio: ["ignore", "pipe", "ignore"],
      detached: true,
    });
    const parts: Buffer[] = [];
    let size = 0;
    let note = "";
    // The whole group: a command may have started more, and may be writing still.
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      child.stdout.destroy();
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {
        // It is gone already.
      }
    };
    const timer = setTimeout(() => {
      note = `\n(ended after ${seconds} seconds)`;
      end();
    }, seconds * 1000);
    signal.addEventListener("abort", end);
    child.stdout.on("data", (part: Buffer) => {
      parts.push(part);
      size += part.length;
      if (size <= OUTPUT_BYTES) return;
      note = `\n(cut after ${OUTPUT_BYTES} bytes)`;
      end();
    });
    child.once("error", reject);
    child.once("close", (status) => {
      end();
      if (signal.aborted) reject(signal.reason);
      else fulfil([Buffer.concat(parts).subarray(0, OUTPUT_BYTES).toString() + note, status !== 0]);
    });
  });
}
