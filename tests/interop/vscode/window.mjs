// A window for the whole extension in Node: `vscode` is played, so that a test runs what a person runs.
//
//     const window = open(PATH_OF_THE_BUNDLE)
//
// `window.commands` and `window.views` are what the extension registered, `window.files` reads its documents. A person
// types `window.typed` into each box, and closes each message; `window.said` has all messages.
import Module, { createRequire } from "node:module";

class EventEmitter {
  #listeners = [];
  event = (listener) => {
    this.#listeners.push(listener);
    return { dispose: () => undefined };
  };
  fire = (value) => this.#listeners.forEach((listener) => listener(value));
}

class Uri {
  static from = (parts) => Object.assign(new Uri(), parts);
  static file = (path) => Uri.from({ scheme: "file", path, fsPath: path });
  toString = () => `${this.scheme}:${this.path}?${this.query ?? ""}`;
}

/** Return a value that can be called, extended and made, and has every member: what needs no part in a test. */
function anything(own = {}) {
  const target = Object.assign(function () {}, own);
  return new Proxy(target, {
    apply: () => anything(),
    set: (_, name, value) => Reflect.defineProperty(target, name, { value, configurable: true, writable: true }),
    get: (_, name) => (name in target || name === "then" || typeof name === "symbol" ? target[name] : anything()),
  });
}

/** Return the address of the document of a session. */
export const address = (sessionId) => Uri.from({ scheme: "sessiond", path: `/${sessionId}/title` });

export function open(bundle, folder) {
  const opened = { commands: {}, views: {}, said: [], typed: "", shown: [] };
  const say = async (text) => void opened.said.push(text);
  const editor = { document: { lineCount: 1 }, revealRange: () => undefined };
  const vscode = anything({
    EventEmitter,
    Uri,
    FileSystemError: anything({ Unavailable: (text) => new Error(text) }),
    commands: anything({ registerCommand: (name, act) => void (opened.commands[name] = act) }),
    window: anything({
      activeTextEditor: undefined,
      tabGroups: anything({ all: [] }),
      createTreeView: (name, { treeDataProvider }) => {
        const view = anything({ message: undefined });
        opened.views[name] = { view, nodes: (element) => treeDataProvider.getChildren(element) };
        return view;
      },
      showInputBox: async () => opened.typed,
      showTextDocument: async (uri) => {
        opened.shown.push(uri);
        return editor;
      },
      ...{ showInformationMessage: say, showWarningMessage: say, showErrorMessage: say },
    }),
    workspace: anything({
      getConfiguration: () => ({ get: () => undefined }),
      registerFileSystemProvider: (_, provider) => void (opened.files = provider),
      textDocuments: [],
      workspaceFolders: folder === undefined ? [] : [{ uri: Uri.file(folder) }],
    }),
  });
  const load = Module._load;
  Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));
  const subscriptions = [];
  createRequire(import.meta.url)(bundle).activate({ subscriptions });
  opened.close = () => subscriptions.forEach((one) => one?.dispose?.());
  return opened;
}
