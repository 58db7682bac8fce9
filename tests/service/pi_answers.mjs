// What pi's own functions answer: one task a line, one answer a line.
//
//   node pi_answers.mjs DIST_FOLDER_OF_PI
//   > {"function":"tokens","input":{"message":{"role":"user","content":"abcde"}}}
//   < 2
//
// Law: the arithmetic is pi 0.73's. Where 1.5 decides otherwise, what it is asked with is changed
// beforehand, so that its own rules come to what 1.5 would say:
// * what is told in the user's place (a command, an extension's message, a summary) is a user's
//   message of as many characters, and counts, begins a turn and is cut at like one;
// * usage from before the last compaction, and usage of nothing, is left out;
// * where the newest results alone exceed what is kept, they are left out, and the message that
//   called for them is kept;
// * the last compaction stands before what it kept, and what nobody sees any more is left out;
// * thinking is not told to who summarises.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(`${process.argv[2]}/core/${name}.js`).href);
const compaction = await load("compaction/compaction");
const branching = await load("compaction/branch-summarization");
const told = await load("compaction/utils");
const messages = await load("messages");
const { buildSessionContext } = await load("session-manager");

const USERS = ["user", "custom", "bashExecution", "branchSummary", "compactionSummary"];

function messageOf(entry) {
  if (entry.type === "message") return entry.message;
  if (entry.type === "custom_message") {
    const { customType, content, display, details, timestamp } = entry;
    return messages.createCustomMessage(customType, content, display, details, timestamp);
  }
  if (entry.type === "branch_summary" && entry.summary) {
    return messages.createBranchSummaryMessage(entry.summary, entry.fromId, entry.timestamp);
  }
  return undefined;
}

// As an extension's message, a user's message has images, too.
const counted = (message) => (message.role === "user" ? { ...message, role: "custom" } : message);
const estimate = (message) => compaction.estimateTokens(counted(message));

function asUsers(entry) {
  const message = messageOf(entry);
  if (message === undefined) {
    return entry.type === "branch_summary" ? { ...entry, type: "custom" } : entry;
  }
  if (!USERS.includes(message.role)) return entry;
  const content = "x".repeat(4 * estimate(message));
  return { ...entry, type: "message", message: { role: "user", content } };
}

function pathTo(entries, id) {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const path = [];
  for (let at = byId.get(id); at !== undefined; at = byId.get(at.parentId)) path.unshift(at);
  return path;
}

function withoutOldUsage(entries) {
  const last = entries.findLastIndex((entry) => entry.type === "compaction");
  return entries.map((entry, at) => {
    if (entry.message?.usage === undefined) return entry;
    const isNothing = !compaction.calculateContextTokens(entry.message.usage);
    if (at > last && !isNothing) return entry;
    return { ...entry, message: { ...entry.message, usage: undefined } };
  });
}

function withoutNewestResults(entries, keep) {
  let tokens = 0;
  for (let at = entries.length - 1; at >= 0; at -= 1) {
    const { type, message } = entries[at];
    if (type === "compaction") break;
    if (type !== "message") continue;
    if (USERS.includes(message.role) || message.role === "assistant") {
      const isOver = at < entries.length - 1 && tokens >= keep;
      return isOver ? [entries.slice(0, at + 1), 0] : [entries, keep];
    }
    tokens += estimate(message);
  }
  return [entries, keep];
}

function asSeen(path) {
  const last = path.findLastIndex((entry) => entry.type === "compaction");
  if (last < 0) return path;
  const first = path.findIndex((entry) => entry.id === path[last].firstKeptEntryId);
  const kept = first < 0 ? [] : path.slice(first, Math.max(first, last));
  const older = ({ type }) => type === "compaction";
  const silent = (entry) => ({ ...entry, type: "message", message: { role: "older" } });
  const shown = kept.map((entry) => (older(entry) ? silent(entry) : entry));
  return [path[last], ...shown, ...path.slice(last + 1)];
}

// A user's images count, also among what is left behind.
function asCounted(entry) {
  return entry.type === "message" && entry.message.role === "user" ? asUsers(entry) : entry;
}

const fileLists = (fileOps) => told.computeFileLists(fileOps);

function prepared(entries, budget) {
  const users = entries.map(asCounted);
  const originals = new Map(users.map((entry, at) => [entry.message, entries[at].message]));
  const found = branching.prepareBranchEntries(users, budget);
  return {
    messages: found.messages.map((message) => originals.get(message) ?? message),
    totalTokens: found.totalTokens,
    fileLists: fileLists(found.fileOps),
  };
}

const asked = {
  tokens: ({ message }) => estimate(message),
  shouldCompact: ({ contextTokens, contextWindow, settings }) =>
    compaction.shouldCompact(contextTokens, contextWindow, settings),
  context({ entries, leafId }) {
    const found = buildSessionContext(entries, leafId);
    return { messages: found.messages, thinkingLevel: found.thinkingLevel, model: found.model };
  },
  contextTokens({ entries }) {
    const path = pathTo(entries, entries.at(-1).id);
    const { messages: context } = buildSessionContext(withoutOldUsage(path.map(asUsers)));
    return compaction.estimateContextTokens(context).tokens;
  },
  findCutPoint({ entries, start, end, keepRecentTokens }) {
    const region = entries.slice(0, end).map(asUsers);
    const [users, keep] = withoutNewestResults(region, keepRecentTokens);
    return compaction.findCutPoint(users, start, users.length, keep);
  },
  prepareCompaction({ path, settings }) {
    if (path.at(-1)?.type === "compaction") return null;
    const seen = asSeen(path);
    const all = withoutOldUsage(seen.map(asUsers));
    const [shown, keep] = withoutNewestResults(all, settings.keepRecentTokens);
    const own = { ...settings, keepRecentTokens: keep };
    const found = compaction.prepareCompaction(shown, own);
    if (found === undefined) return null;
    const { messagesToSummarize, turnPrefixMessages } = found;
    const byId = new Map(path.map((entry) => [entry.id, messageOf(entry)]));
    const originals = new Map(shown.map(({ id, message }) => [message, byId.get(id)]));
    const asStored = (list) => list.map((one) => originals.get(one)).filter((one) => one);
    const toSummarize = asStored(messagesToSummarize);
    const prefix = asStored(turnPrefixMessages);
    if (!toSummarize.length && !prefix.length) return null;
    return {
      firstKeptEntryId: found.firstKeptEntryId,
      messagesToSummarize: toSummarize,
      turnPrefixMessages: prefix,
      isSplitTurn: found.isSplitTurn,
      tokensBefore: asked.contextTokens({ entries: path }),
      previousSummary: found.previousSummary ?? null,
      fileLists: fileLists(found.fileOps),
    };
  },
  prepareBranch({ entries, tokenBudget }) {
    return prepared(entries, tokenBudget);
  },
  leaveBranch({ entries, leafId, targetId }) {
    const getEntry = (id) => entries.find((entry) => entry.id === id);
    const session = { getEntry, getBranch: (id) => pathTo(entries, id) };
    const found = branching.collectEntriesForBranchSummary(session, leafId, targetId);
    return { commonAncestorId: found.commonAncestorId, ...prepared(found.entries, 0) };
  },
  serialize({ messages: list }) {
    const said = ({ type }) => type !== "thinking";
    const silent = list.map((message) =>
      message.role === "assistant"
        ? { ...message, content: message.content.filter(said) }
        : message,
    );
    return told.serializeConversation(messages.convertToLlm(silent));
  },
  convertToLlm: ({ messages: list }) => messages.convertToLlm(list),
};

for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  const answer = asked[task.function](task.input);
  process.stdout.write(`${JSON.stringify(answer ?? null)}\n`);
}
