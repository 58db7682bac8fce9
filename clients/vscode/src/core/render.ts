import type { AnyEntry } from "sessiond-client";

const TEXT_CHARACTERS_MAX = 64 * 1024;
/** Every line end of VS Code, and the two that VS Code would ask about. */
const LINE_END = /\r\n|[\n\r\u2028\u2029]/;

/** An entry as lines of text. */
export interface Block {
  seq: number;
  entryId: string;
  lines: string[];
}

type Values = Readonly<Record<string, unknown>>;

/** Return the lines that show an entry: a heading, the text, a blank line. */
export function block(seq: number, entry: AnyEntry, head?: string): Block {
  const { who, text } = parts(entry);
  const time = /T(\d\d:\d\d)/.exec(String(entry.timestamp))?.[1];
  const words = [`── ${who} ── #${seq}`, time, head === undefined || head === "main" ? undefined : `[${head}]`];
  const heading = words.filter((word) => word !== undefined).join(" ");
  const body = text === "" ? [] : shortened(text).split(LINE_END);
  return { seq, entryId: entry.id, lines: [heading, ...body, ""] };
}

/** Return who says an entry, and the text of the entry. */
export function parts(entry: AnyEntry): { who: string; text: string } {
  const values = entry as unknown as Values;
  const message = isObject(values["message"]) ? values["message"] : {};
  switch (values["type"]) {
    case "message":
      return named(message["role"] ?? "message", contentText(message["content"] ?? message["contents"]));
    case "custom_message":
      return named(values["custom_type"], contentText(values["content"]));
    case "branch_summary":
      return named("branch summary", values["summary"]);
    case "compaction":
      return named("compaction", values["summary"]);
    case "label":
      return named("label", values["label"]);
    case "session_info":
      return named("session", values["name"] ?? values["title"]);
    case "model_change":
      return named("model", values["model_id"]);
    case "thinking_level_change":
      return named("thinking level", values["thinking_level"]);
    case "custom":
      return named(values["custom_type"], "");
    default:
      return named(values["type"], "");
  }
}

/** Return the first words of an entry in one line. */
export function preview(entry: AnyEntry, charactersMax = 60): string {
  const text = parts(entry).text.slice(0, charactersMax * 4).replaceAll(/\s+/g, " ").trim();
  return text.length > charactersMax ? `${text.slice(0, charactersMax - 1)}…` : text;
}

function named(who: unknown, text: unknown): { who: string; text: string } {
  return {
    who: String(who ?? "entry").replaceAll(/[\p{Cc}\u2028\u2029]/gu, " "),
    text: typeof text === "string" ? text : "",
  };
}

/** Return the text of the content of a message: a text, or a list of blocks. */
function contentText(content: unknown): string {
  if (Array.isArray(content)) return content.map(blockText).join("\n");
  return typeof content === "string" ? content : "";
}

function blockText(part: unknown): string {
  if (typeof part === "string") return part;
  if (!isObject(part)) return "";
  const { type, text, thinking, name, content } = part;
  if (typeof text === "string") return text;
  if (typeof thinking === "string") return `[thinking] ${thinking}`;
  if (typeof name === "string") return `[${name}] ${JSON.stringify(part["arguments"] ?? part["input"] ?? {})}`;
  return content === undefined ? `[${String(type)}]` : contentText(content);
}

function shortened(text: string): string {
  const left = text.length - TEXT_CHARACTERS_MAX;
  return left > 0 ? `${text.slice(0, TEXT_CHARACTERS_MAX)}\n… ${left} characters more` : text;
}

function isObject(value: unknown): value is Values {
  return typeof value === "object" && value !== null;
}
