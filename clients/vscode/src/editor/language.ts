import { type Disposable, type TextDocument, workspace } from "vscode";
import { LanguageClient } from "vscode-languageclient/node";
import { shellWords } from "sessiond-client";

import { complain, settings } from "./services.js";

/** The language server for session files, started with the first one. */
export class SessionLanguage implements Disposable {
  #client: LanguageClient | undefined;
  readonly #opening: Disposable;

  constructor() {
    this.#opening = workspace.onDidOpenTextDocument((document) => this.#look(document));
    workspace.textDocuments.forEach((document) => this.#look(document));
  }

  dispose(): void {
    this.#opening.dispose();
    void this.#client?.dispose().catch(() => undefined);
  }

  #look({ uri }: TextDocument): void {
    const isWanted = workspace.getConfiguration("sessiond").get<boolean>("languageServer");
    if (this.#client !== undefined || !isWanted || uri.scheme !== "file" || !uri.path.endsWith(".jsonl")) return;
    const { command, ...place } = settings();
    const [program = "sessiond", ...words] = shellWords(command ?? process.env["SESSIOND_COMMAND"] ?? "sessiond");
    const named = Object.entries(place).flatMap(([name, value]) => [`--${name}`, value]);
    this.#client = new LanguageClient(
      "sessiond",
      "sessiond language server",
      { command: program, args: [...words, "lsp", ...named] },
      { documentSelector: [{ scheme: "file", pattern: "**/*.jsonl" }] },
    );
    this.#client.start().catch(complain);
  }
}
