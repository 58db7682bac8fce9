import {
  CodeLens,
  type Disposable,
  DocumentSymbol,
  FoldingRange,
  languages,
  Range,
  SymbolKind,
  type TextDocument,
  type TextDocumentChangeEvent,
  TextEditorRevealType,
  window,
  workspace,
} from "vscode";

import type { SessionFiles } from "./files.js";
import { placeOf, SCHEME } from "./place.js";

const LANGUAGE = "sessiond";

/** Give documents of sessions their language, folds, symbols and links, and let readers at the end follow. */
export function readComfortably(files: SessionFiles): Disposable[] {
  const selector = { scheme: SCHEME };
  const give = (document: TextDocument): void => {
    if (placeOf(document.uri) === undefined || document.languageId === LANGUAGE) return;
    void languages.setTextDocumentLanguage(document, LANGUAGE);
  };
  workspace.textDocuments.forEach(give);
  const headings = (document: TextDocument) => files.shown(document.uri)?.headings() ?? [];
  return [
    workspace.onDidOpenTextDocument(give),
    languages.registerFoldingRangeProvider(selector, {
      provideFoldingRanges: (document) =>
        headings(document)
          .filter(({ line, end }) => end > line)
          .map(({ line, end }) => new FoldingRange(line, end)),
    }),
    languages.registerDocumentSymbolProvider(selector, {
      provideDocumentSymbols: (document) =>
        headings(document).map(({ line, end, text }) => {
          const range = new Range(line, 0, Math.max(line, end), 0);
          return new DocumentSymbol(text.replaceAll("──", "").trim(), "", SymbolKind.String, range, range);
        }),
    }),
    languages.registerCodeLensProvider(selector, { provideCodeLenses: (document) => lenses(document, files) }),
    ...followers(),
  ];
}

function lenses(document: TextDocument, files: SessionFiles): CodeLens[] {
  const place = placeOf(document.uri);
  const first = files.shown(document.uri)?.firstSeq;
  if (place === undefined || first === undefined) return [];
  const top = new Range(0, 0, 0, 0);
  const command = "sessiond.sessions.openAt";
  const found: CodeLens[] = [];
  if (first > 1) {
    found.push(new CodeLens(top, { title: "Earlier entries", command, arguments: [place.sessionId, first] }));
  }
  if (place.beforeSeq !== undefined) {
    found.push(new CodeLens(top, { title: "Newest entries", command, arguments: [place.sessionId] }));
  }
  return found;
}

/** Scroll along with a document where the reader is at its end. */
function followers(): Disposable[] {
  const lineCounts = new Map<string, number>();
  const note = (document: TextDocument): void => {
    if (document.uri.scheme === SCHEME) lineCounts.set(document.uri.toString(), document.lineCount);
  };
  workspace.textDocuments.forEach(note);
  const changed = ({ document }: TextDocumentChangeEvent): void => {
    if (document.uri.scheme !== SCHEME) return;
    const before = lineCounts.get(document.uri.toString()) ?? document.lineCount;
    note(document);
    for (const editor of window.visibleTextEditors) {
      if (editor.document !== document || document.lineCount <= before) continue;
      const last = editor.visibleRanges.at(-1)?.end.line ?? 0;
      // The editor may tell of the new lines before it has drawn them.
      if (last < before - 3) continue;
      const end = document.lineAt(document.lineCount - 1).range;
      editor.revealRange(end, TextEditorRevealType.Default);
    }
  };
  return [
    workspace.onDidOpenTextDocument(note),
    workspace.onDidCloseTextDocument(({ uri }) => lineCounts.delete(uri.toString())),
    workspace.onDidChangeTextDocument(changed),
  ];
}
