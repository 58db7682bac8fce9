// What pi's own SessionManager makes of files: the context of each, as one JSON list.
// Of a project, which begins with "cwd:", it tells the files that it lists.
//
//   node pi_reader.mjs SESSION_MANAGER FILE…

import { pathToFileURL } from "node:url";

const [module, ...paths] = process.argv.slice(2);
const { SessionManager } = await import(pathToFileURL(module).href);
const listed = async (cwd) => (await SessionManager.list(cwd)).map(({ path }) => path);
const contexts = paths.map((path) =>
  path.startsWith("cwd:") ? listed(path.slice(4)) : SessionManager.open(path).buildSessionContext());
process.stdout.write(JSON.stringify(await Promise.all(contexts)));
