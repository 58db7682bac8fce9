import {
  Disposable,
  EventEmitter,
  FileChangeType,
  type FileChangeEvent,
  FilePermission,
  type FileStat,
  FileSystemError,
  type FileSystemProvider,
  FileType,
  Uri,
  workspace,
} from "vscode";

import { type Connection, type Feeds, readPage, SessionLog, Snapshot } from "../core/index.js";
import { placeOf } from "./place.js";

const CHANGE_PAUSE_MS = 20;

/** Sessions as files that are only read: the newest entries follow the session, a page of older ones stays. */
export class SessionFiles implements FileSystemProvider, Disposable {
  readonly #files = new Map<string, SessionFile>();
  readonly #changes = new EventEmitter<FileChangeEvent[]>();
  readonly #closing: Disposable;
  readonly onDidChangeFile = this.#changes.event;

  constructor(
    private readonly connection: Connection,
    private readonly feeds: Feeds,
  ) {
    this.#closing = workspace.onDidCloseTextDocument(({ uri }) => {
      // A document whose language changes is closed and opened at once.
      setImmediate(() => {
        if (!workspace.textDocuments.some((one) => one.uri.toString() === uri.toString())) this.#forget(uri);
      });
    });
  }

  dispose(): void {
    this.#closing.dispose();
    for (const file of this.#files.values()) file.stop();
    this.#files.clear();
  }

  /** Return the text that was handed to the editor last, with the entries of its lines. */
  shown(uri: Uri): Snapshot | undefined {
    return this.#files.get(uri.toString())?.shown;
  }

  watch(): Disposable {
    return new Disposable(() => undefined);
  }

  async stat(uri: Uri): Promise<FileStat> {
    const file = await this.#file(uri);
    const size = Buffer.byteLength(file.snapshot().text);
    return { type: FileType.File, ctime: 0, mtime: file.version, size, permissions: FilePermission.Readonly };
  }

  async readFile(uri: Uri): Promise<Uint8Array> {
    const file = await this.#file(uri);
    file.shown = file.snapshot();
    return Buffer.from(file.shown.text);
  }

  readDirectory(): [string, FileType][] {
    return [];
  }

  createDirectory(uri: Uri): never {
    throw FileSystemError.NoPermissions(uri);
  }

  writeFile(uri: Uri): never {
    throw FileSystemError.NoPermissions(uri);
  }

  delete(uri: Uri): never {
    throw FileSystemError.NoPermissions(uri);
  }

  rename(uri: Uri): never {
    throw FileSystemError.NoPermissions(uri);
  }

  async #file(uri: Uri): Promise<SessionFile> {
    const key = uri.toString();
    let file = this.#files.get(key);
    if (file === undefined) {
      const place = placeOf(uri);
      if (place === undefined) throw FileSystemError.FileNotFound(uri);
      const { sessionId, beforeSeq } = place;
      const changed = (): void => this.#changes.fire([{ type: FileChangeType.Changed, uri }]);
      file =
        beforeSeq === undefined
          ? new LiveFile(this.connection, this.feeds, sessionId, changed)
          : new PageFile(this.connection, sessionId, beforeSeq);
      this.#files.set(key, file);
    }
    try {
      await file.ready();
    } catch (error) {
      this.#forget(uri);
      throw FileSystemError.Unavailable((error as Error).message);
    }
    return file;
  }

  #forget(uri: Uri): void {
    this.#files.get(uri.toString())?.stop();
    this.#files.delete(uri.toString());
  }
}

interface SessionFile {
  shown: Snapshot | undefined;
  /** Grows with each change: an editor reads a file again if its time is another one. */
  readonly version: number;
  ready(): Promise<void>;
  snapshot(): Snapshot;
  stop(): void;
}

class LiveFile implements SessionFile {
  shown: Snapshot | undefined;
  version = Date.now();
  readonly #log: SessionLog;
  #ready: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(connection: Connection, feeds: Feeds, sessionId: string, changed: () => void) {
    this.#log = new SessionLog(connection, feeds, sessionId, () => {
      this.version = Math.max(this.version + 1, Date.now());
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined;
        changed();
      }, CHANGE_PAUSE_MS);
    });
  }

  ready(): Promise<void> {
    this.#ready ??= this.#log.start();
    return this.#ready;
  }

  snapshot(): Snapshot {
    return this.#log.snapshot();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#log.stop();
  }
}

class PageFile implements SessionFile {
  shown: Snapshot | undefined;
  readonly version = Date.now();
  #page: Promise<Snapshot> | undefined;
  #snapshot = new Snapshot([], []);

  constructor(
    private readonly connection: Connection,
    private readonly sessionId: string,
    private readonly beforeSeq: number,
  ) {}

  async ready(): Promise<void> {
    this.#page ??= readPage(this.connection, this.sessionId, this.beforeSeq);
    this.#snapshot = await this.#page;
  }

  snapshot(): Snapshot {
    return this.#snapshot;
  }

  stop(): void {}
}
