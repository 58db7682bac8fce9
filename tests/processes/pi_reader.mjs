// What pi's own SessionManager makes of files: the context of each, as one JSON list.
//
//   node pi_reader.mjs SESSION_MANAGER FILE…

import { pathToFileURL } from "node:url";

const [module, ...paths] = process.argv.slice(2);
const { SessionManager } = await import(pathToFileURL(module).href);
const contexts = paths.map((path) => SessionManager.open(path).buildSessionContext());
process.stdout.write(JSON.stringify(contexts));
