import { Uri } from "vscode";

export const SCHEME = "sessiond";

/** The place of a document: a session's newest entries, or those before a line of its log. */
export interface Place {
  sessionId: string;
  beforeSeq: number | undefined;
}

/** Return the address of a session's document; the last part of its path is the name of the tab. */
export function addressOf(sessionId: string, title: string, beforeSeq?: number): Uri {
  const name = title.replaceAll("/", "∕");
  const query = beforeSeq === undefined ? "" : `before=${beforeSeq}`;
  return Uri.from({ scheme: SCHEME, path: `/${sessionId}/${name}`, query });
}

/** Return the place that an address names; undefined for any other address. */
export function placeOf(uri: Uri): Place | undefined {
  const match = /^\/([\w-]{8,128})\/./.exec(uri.path);
  if (uri.scheme !== SCHEME || match === null) return undefined;
  const before = /^before=(\d+)$/.exec(uri.query)?.[1];
  return { sessionId: match[1] as string, beforeSeq: before === undefined ? undefined : Number(before) };
}
