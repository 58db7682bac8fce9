import { CannotStart, ClientClosed, ConnectionLost, RpcError, Timeout } from "sessiond-client";

/** Tell whether the daemon may have done what was asked. */
export function isOutcomeUnknown(error: unknown): boolean {
  const isLost = error instanceof ConnectionLost || error instanceof Timeout || error instanceof ClientClosed;
  return isLost && error.outcomeUnknown;
}

/** Tell whether there is no daemon, and none could be started. */
export function isNoDaemon(error: unknown): boolean {
  return error instanceof CannotStart;
}

/** Return a sentence for a person. */
export function sentence(error: unknown): string {
  if (error instanceof RpcError) {
    switch (error.kind) {
      case "lease_held":
        return "Another client works on this head. Append to another head, or wait.";
      case "session_read_only":
        return "This session is read-only. Fork the session to go on.";
      case "session_not_found":
        return "There is no such session any more.";
    }
  }
  if (isOutcomeUnknown(error)) return `${(error as Error).message}. Look whether it was done before you try again.`;
  if (error instanceof Timeout) return `${error.message}. See \`sessiond status\`, then try again.`;
  return error instanceof Error ? error.message : String(error);
}
