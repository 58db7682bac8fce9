/** The signals that ask something of pi, and the answers. */
import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";
import type { Notifications } from "sessiond-client";

type Signal = Notifications["session/signal"];

const KINDS = ["steer", "follow_up", "abort", "label"] as const;
type Kind = (typeof KINDS)[number];

/** A signal that pi can carry out. */
export interface Request {
  kind: Kind;
  text: string | undefined;
  /** The client id of the pi that is meant, if the signal names one. */
  to: string | undefined;
  /** The sender's own name of the request, for the answer. */
  id: unknown;
  entryId: string | undefined;
  label: string | undefined;
  queueId: string | undefined;
  sender: string | undefined;
}

/** Return the request in a signal; undefined for a signal of any other kind. */
export function requestOf({ kind, data, origin, queue_id }: Signal): Request | undefined {
  const known = KINDS.find((one) => one === kind);
  if (known === undefined) return undefined;
  // A prompt of the queue is a text; other signals carry an object.
  const { text, to, id, entry_id, label } = (typeof data === "string" ? { text: data } : (data ?? {})) as Record<
    string,
    unknown
  >;
  return {
    kind: known,
    text: words(text),
    to: words(to),
    id: id ?? queue_id ?? null,
    entryId: words(entry_id),
    label: words(label),
    queueId: queue_id ?? undefined,
    sender: origin?.client_id ?? undefined,
  };
}

/** Carry a request out; return the reason of a refusal. */
export function perform(pi: ExtensionAPI, ctx: ExtensionContext, request: Request): string | undefined {
  try {
    switch (request.kind) {
      case "abort":
        if (ctx.isIdle()) return "idle";
        ctx.abort();
        return undefined;
      case "label":
        if (request.entryId === undefined) return "data has no entry_id";
        // Through pi: pi shows the label at once, and writes the label's line itself.
        pi.setLabel(request.entryId, request.label);
        return undefined;
      default:
        if (request.text === undefined) return "data has no text";
        if (ctx.model === undefined) return "pi has no model";
        // An idle pi takes the text as its next prompt.
        pi.sendUserMessage(request.text, { deliverAs: request.kind === "steer" ? "steer" : "followUp" });
        return undefined;
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Return the signal that answers a request. */
export function answerOf(request: Request, refusal: string | undefined): { kind: string; data: object } {
  const data = { kind: request.kind, id: request.id, to: request.sender ?? null };
  return refusal === undefined ? { kind: "taken", data } : { kind: "refused", data: { ...data, reason: refusal } };
}

function words(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
