import { spawn } from "node:child_process";
import { createConnection, type Socket } from "node:net";

import { CannotStart } from "./errors.js";
import { LAST_WORDS_BYTES, START_MS } from "./limits.js";
import { ownAddress } from "./peer.js";
import { type Environment, type Place, socketPath } from "./place.js";

/** What connecting fails with where a start may help. */
const NO_LISTENER = new Set(["ENOENT", "ECONNREFUSED"]);

/** The way to a connection: a socket, and a daemon that is started where none listens. */
export class Reach {
  readonly #path: string;
  readonly #environment: Environment;

  constructor(
    private readonly place: Place,
    private readonly mayStart: boolean,
    private readonly command?: string,
  ) {
    // Read once: a change of the environment leads no client to another daemon.
    this.#environment = { ...process.env };
    this.#path = socketPath(this.#environment, place);
  }

  /** Return a connected socket; start a daemon if none listens and that is wanted. */
  async connect(): Promise<Socket> {
    try {
      return await connected(this.#path);
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? "";
      if (!this.mayStart || !NO_LISTENER.has(code)) throw error;
    }
    await this.#start();
    return connected(this.#path);
  }

  /** Run `sessiond start`, which is safe to run any number of times at once. */
  async #start(): Promise<void> {
    const own = this.command || this.#environment["SESSIOND_COMMAND"];
    const [program, ...words] = own ? shellWords(own) : ["sessiond"];
    const { socket, profile, home } = this.place;
    const flags = Object.entries({ "--socket": socket, "--profile": profile, "--home": home });
    const told = flags.flatMap(([flag, value]) => (value ? [flag, value] : []));
    await run(program ?? "sessiond", [...words, "start", "--json", ...told], this.#environment);
  }
}

/** Return a connected socket in a folder of this user alone. Throws ForeignSocket for any other one. */
async function connected(path: string): Promise<Socket> {
  const { name, release } = ownAddress(path);
  return new Promise<Socket>((fulfil, reject) => {
    const socket = createConnection(name);
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      fulfil(socket);
    });
  }).finally(release);
}

function run(program: string, words: string[], environment: Environment): Promise<void> {
  return new Promise((fulfil, reject) => {
    const child = spawn(program, words, {
      env: environment as NodeJS.ProcessEnv,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), START_MS);
    let said = Buffer.alloc(0);
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        said = Buffer.concat([said, chunk]).subarray(-LAST_WORDS_BYTES);
      });
    }
    child.once("error", (cause: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      const missing = "there is no sessiond to start: install sessiond, or name its command in SESSIOND_COMMAND";
      reject(new CannotStart(cause.code === "ENOENT" ? missing : cause.message, { cause }));
    });
    child.once("close", (status) => {
      clearTimeout(timer);
      const lines = said.toString("utf8").split("\n").filter((line) => line.trim() !== "");
      const why = status === null ? "it took too long" : `status ${status}`;
      if (status === 0) fulfil();
      else reject(new CannotStart(`sessiond was not started (${why}): ${lines.at(-1) ?? "no reason given"}`));
    });
  });
}

/** Split a command as a shell does: blanks, quotes and backslashes, nothing more. */
export function shellWords(command: string): string[] {
  const words: string[] = [];
  for (const [word] of command.matchAll(/(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+/gs)) {
    words.push(
      word.replace(/\\(.)|"((?:[^"\\]|\\.)*)"|'([^']*)'/gs, (_, escaped, quoted, plain) =>
        escaped ?? plain ?? (quoted as string).replace(/\\(["\\$`])/g, "$1"),
      ),
    );
  }
  return words;
}
