// Generated from the types of the protocol; run: make schema

import type * as wire from "../../protocol.js";
import type { CallOptions } from "../call.js";

type Params<M extends wire.Method> = wire.Params<M>;
type Result<M extends wire.Method> = wire.Result<M>;

/** A method for each of the daemon's; parameters and results are those of the protocol. */
export abstract class Methods {
  protected abstract ask(method: string, params: object, options?: CallOptions): Promise<unknown>;

  /** Call a method by its name on the wire. */
  call<M extends wire.Method>(method: M, params: Params<M>, options?: CallOptions): Promise<Result<M>> {
    return this.ask(method, params, options) as Promise<Result<M>>;
  }

  /** Call a method that a newer daemon has and this client does not know. */
  callAny(method: string, params: object, options?: CallOptions): Promise<unknown> {
    return this.ask(method, params, options);
  }

  /** Check that the daemon answers. */
  ping(params: Params<"server/ping"> = {}, options?: CallOptions): Promise<Result<"server/ping">> {
    return this.call("server/ping", params, options);
  }

  /** Return version, build, process, profile and limits of this daemon. */
  info(params: Params<"server/info"> = {}, options?: CallOptions): Promise<Result<"server/info">> {
    return this.call("server/info", params, options);
  }

  /** Return the daemon's counters. */
  stats(params: Params<"server/stats"> = {}, options?: CallOptions): Promise<Result<"server/stats">> {
    return this.call("server/stats", params, options);
  }

  /** Stop the daemon as SIGTERM does. */
  stop(params: Params<"server/stop"> = {}, options?: CallOptions): Promise<Result<"server/stop">> {
    return this.call("server/stop", params, options);
  }

  /** Return the protocol of this daemon as an OpenRPC document. */
  discover(params: Params<"rpc.discover"> = {}, options?: CallOptions): Promise<Result<"rpc.discover">> {
    return this.call("rpc.discover", params, options);
  }

  /** Create a session, or open the session that has the id. */
  create(params: Params<"session/create">, options?: CallOptions): Promise<Result<"session/create">> {
    return this.call("session/create", params, options);
  }

  /** Open a session by its id, its file, or an entry in it. */
  open(params: Params<"session/open"> & { create: true }, options?: CallOptions): Promise<wire.CreateResult>;
  open(params: Params<"session/open"> & { create?: false }, options?: CallOptions): Promise<wire.SessionResult>;
  open(params?: Params<"session/open">, options?: CallOptions): Promise<Result<"session/open">>;
  open(params: Params<"session/open"> = {}, options?: CallOptions): Promise<any> {
    return this.call("session/open", params, options);
  }

  /** End this connection's use of a session. */
  close(params: Params<"session/close">, options?: CallOptions): Promise<Result<"session/close">> {
    return this.call("session/close", params, options);
  }

  /** Return the current fields and the working state of a session. */
  get(params: Params<"session/get">, options?: CallOptions): Promise<Result<"session/get">> {
    return this.call("session/get", params, options);
  }

  /** Change the metadata of a session. */
  update(params: Params<"session/update">, options?: CallOptions): Promise<Result<"session/update">> {
    return this.call("session/update", params, options);
  }

  /** Return the sessions, filtered and sorted, a page at a time. */
  list(params: Params<"session/list"> = {}, options?: CallOptions): Promise<Result<"session/list">> {
    return this.call("session/list", params, options);
  }

  /** Find the session named by an id, the beginning of an id, or a title. */
  resolve(params: Params<"session/resolve">, options?: CallOptions): Promise<Result<"session/resolve">> {
    return this.call("session/resolve", params, options);
  }

  /** Open the latest conversation of a project, or begin a new session in it. */
  continueRecent(params: Params<"session/continue_recent"> = {}, options?: CallOptions): Promise<Result<"session/continue_recent">> {
    return this.call("session/continue_recent", params, options);
  }

  /** Sessions by descent, as rows or drawn as text. */
  catalogForest(params: Params<"catalog/forest"> & { form: "text" }, options?: CallOptions): Promise<wire.ForestText>;
  catalogForest(params: Params<"catalog/forest"> & { form?: "nodes" }, options?: CallOptions): Promise<wire.ForestNodes>;
  catalogForest(params?: Params<"catalog/forest">, options?: CallOptions): Promise<Result<"catalog/forest">>;
  catalogForest(params: Params<"catalog/forest"> = {}, options?: CallOptions): Promise<any> {
    return this.call("catalog/forest", params, options);
  }

  /** Return the one session of a scope, created when missing. */
  scopeResolve(params: Params<"scope/resolve">, options?: CallOptions): Promise<Result<"scope/resolve">> {
    return this.call("scope/resolve", params, options);
  }

  /** Save and release the sessions of one project, and load those of another. */
  scopeSwitch(params: Params<"scope/switch"> = {}, options?: CallOptions): Promise<Result<"scope/switch">> {
    return this.call("scope/switch", params, options);
  }

  /** List, add or remove folders of other programs, listed beside the profile's own. */
  catalogRoots(params: Params<"catalog/roots"> = {}, options?: CallOptions): Promise<Result<"catalog/roots">> {
    return this.call("catalog/roots", params, options);
  }

  /** Return the value of a key. */
  stateGet(params: Params<"state/get">, options?: CallOptions): Promise<Result<"state/get">> {
    return this.call("state/get", params, options);
  }

  /** Store a value under a key, on condition of its revision if wanted. */
  stateSet(params: Params<"state/set">, options?: CallOptions): Promise<Result<"state/set">> {
    return this.call("state/set", params, options);
  }

  /** Delete a key, on condition of its revision if wanted. */
  stateDelete(params: Params<"state/delete">, options?: CallOptions): Promise<Result<"state/delete">> {
    return this.call("state/delete", params, options);
  }

  /** Return all values of a namespace. */
  stateAll(params: Params<"state/all">, options?: CallOptions): Promise<Result<"state/all">> {
    return this.call("state/all", params, options);
  }

  /** List the namespaces, or the keys of one, without values. */
  stateList(params: Params<"state/list"> = {}, options?: CallOptions): Promise<Result<"state/list">> {
    return this.call("state/list", params, options);
  }

  /** Take JSON files of another program over as namespaces. */
  stateLoad(params: Params<"state/load">, options?: CallOptions): Promise<Result<"state/load">> {
    return this.call("state/load", params, options);
  }

  /** Write the values of a namespace to a JSON file of their own. */
  stateSave(params: Params<"state/save">, options?: CallOptions): Promise<Result<"state/save">> {
    return this.call("state/save", params, options);
  }

  /** Return a secret, decrypted. */
  secretGet(params: Params<"secret/get">, options?: CallOptions): Promise<Result<"secret/get">> {
    return this.call("secret/get", params, options);
  }

  /** Store a secret, encrypted. */
  secretSet(params: Params<"secret/set">, options?: CallOptions): Promise<Result<"secret/set">> {
    return this.call("secret/set", params, options);
  }

  /** Delete a secret. */
  secretDelete(params: Params<"secret/delete">, options?: CallOptions): Promise<Result<"secret/delete">> {
    return this.call("secret/delete", params, options);
  }

  /** List the names of the secrets, never a secret. */
  secretList(params: Params<"secret/list"> = {}, options?: CallOptions): Promise<Result<"secret/list">> {
    return this.call("secret/list", params, options);
  }

  /** Encrypt all secrets with a new key. */
  secretRotate(params: Params<"secret/rotate"> = {}, options?: CallOptions): Promise<Result<"secret/rotate">> {
    return this.call("secret/rotate", params, options);
  }

  /** Store one entry, or several entries as one atom. */
  append(params: Params<"session/append">, options?: CallOptions): Promise<Result<"session/append">> {
    return this.call("session/append", params, options);
  }

  /** Put a head at an entry, create a head there, or drop a head. */
  branch(params: Params<"session/branch">, options?: CallOptions): Promise<Result<"session/branch">> {
    return this.call("session/branch", params, options);
  }

  /** Go to a point of the tree in the way a person means it. */
  navigate(params: Params<"session/navigate">, options?: CallOptions): Promise<Result<"session/navigate">> {
    return this.call("session/navigate", params, options);
  }

  /** Plan the summary of the branch that a head abandons; changes nothing. */
  planBranchSummary(params: Params<"session/plan_branch_summary">, options?: CallOptions): Promise<Result<"session/plan_branch_summary">> {
    return this.call("session/plan_branch_summary", params, options);
  }

  /** Put a head before the first entry. */
  reset(params: Params<"session/reset">, options?: CallOptions): Promise<Result<"session/reset">> {
    return this.call("session/reset", params, options);
  }

  /** Put a head back on its own path and abandon what followed. */
  rewind(params: Params<"session/rewind">, options?: CallOptions): Promise<Result<"session/rewind">> {
    return this.call("session/rewind", params, options);
  }

  /** Find text in all sessions, or in the sessions of a project. */
  search(params: Params<"session/search">, options?: CallOptions): Promise<Result<"session/search">> {
    return this.call("session/search", params, options);
  }

  /** Label an entry, or clear its label. */
  label(params: Params<"session/label">, options?: CallOptions): Promise<Result<"session/label">> {
    return this.call("session/label", params, options);
  }

  /** Return every label in force, in the order of the entries. */
  labels(params: Params<"session/labels">, options?: CallOptions): Promise<Result<"session/labels">> {
    return this.call("session/labels", params, options);
  }

  /** Return the position of every head. */
  heads(params: Params<"session/heads">, options?: CallOptions): Promise<Result<"session/heads">> {
    return this.call("session/heads", params, options);
  }

  /** Read one entry and its place in the tree. */
  entry(params: Params<"session/entry">, options?: CallOptions): Promise<Result<"session/entry">> {
    return this.call("session/entry", params, options);
  }

  /** Find the entries named by ids, labels, or parts of ids. */
  resolveEntries(params: Params<"session/resolve_entries">, options?: CallOptions): Promise<Result<"session/resolve_entries">> {
    return this.call("session/resolve_entries", params, options);
  }

  /** Read the log forwards or backwards, a page at a time. */
  entries(params: Params<"session/entries">, options?: CallOptions): Promise<Result<"session/entries">> {
    return this.call("session/entries", params, options);
  }

  /** Return the entries from a root to a leaf. */
  path(params: Params<"session/path">, options?: CallOptions): Promise<Result<"session/path">> {
    return this.call("session/path", params, options);
  }

  /** Return every node in pre-order, the active branch first: as rows, nested, or drawn. */
  tree(params: Params<"session/tree"> & { form: "nested" }, options?: CallOptions): Promise<wire.NestedTree>;
  tree(params: Params<"session/tree"> & { form: "text" }, options?: CallOptions): Promise<wire.TextTree>;
  tree(params: Params<"session/tree"> & { form?: "flat" }, options?: CallOptions): Promise<wire.TreeResult>;
  tree(params: Params<"session/tree">, options?: CallOptions): Promise<Result<"session/tree">>;
  tree(params: Params<"session/tree">, options?: CallOptions): Promise<any> {
    return this.call("session/tree", params, options);
  }

  /** Return a path as turns, as a chat shows them or as an agent runs them. */
  turns(params: Params<"session/turns">, options?: CallOptions): Promise<Result<"session/turns">> {
    return this.call("session/turns", params, options);
  }

  /** The messages that a model is sent at a head or an entry. */
  buildContext(params: Params<"session/build_context"> & { if_none_match?: null }, options?: CallOptions): Promise<wire.BuildContextResult>;
  buildContext(params: Params<"session/build_context">, options?: CallOptions): Promise<Result<"session/build_context">>;
  buildContext(params: Params<"session/build_context">, options?: CallOptions): Promise<any> {
    return this.call("session/build_context", params, options);
  }

  /** Plan a compaction, with a prompt ready for a model; changes nothing. */
  planCompaction(params: Params<"session/plan_compaction">, options?: CallOptions): Promise<Result<"session/plan_compaction">> {
    return this.call("session/plan_compaction", params, options);
  }

  /** Commit a summary or replacement messages below a head, or run a whole compaction. */
  compact(params: Params<"session/compact">, options?: CallOptions): Promise<Result<"session/compact">> {
    return this.call("session/compact", params, options);
  }

  /** Return how full the model's window is at a head, and the session's total usage. */
  usage(params: Params<"session/usage">, options?: CallOptions): Promise<Result<"session/usage">> {
    return this.call("session/usage", params, options);
  }

  /** Count what a session and the path of a head contain. */
  sessionStats(params: Params<"session/stats">, options?: CallOptions): Promise<Result<"session/stats">> {
    return this.call("session/stats", params, options);
  }

  /** Wait until every event up to now was handed to this connection, or until all is on disk. */
  flush(params: Params<"session/flush">, options?: CallOptions): Promise<Result<"session/flush">> {
    return this.call("session/flush", params, options);
  }

  /** Lease a head, or wait until its lease is free. */
  acquire(params: Params<"session/acquire">, options?: CallOptions): Promise<Result<"session/acquire">> {
    return this.call("session/acquire", params, options);
  }

  /** Extend a lease. */
  renew(params: Params<"session/renew">, options?: CallOptions): Promise<Result<"session/renew">> {
    return this.call("session/renew", params, options);
  }

  /** End a lease. */
  release(params: Params<"session/release">, options?: CallOptions): Promise<Result<"session/release">> {
    return this.call("session/release", params, options);
  }

  /** Send a message to every watcher of a session, and queue a prompt if wanted. */
  signal(params: Params<"session/signal">, options?: CallOptions): Promise<Result<"session/signal">> {
    return this.call("session/signal", params, options);
  }

  /** Set this connection's presence on a session, and list the clients present. */
  presence(params: Params<"session/presence">, options?: CallOptions): Promise<Result<"session/presence">> {
    return this.call("session/presence", params, options);
  }

  /** Remember a key decision. */
  decide(params: Params<"session/decide">, options?: CallOptions): Promise<Result<"session/decide">> {
    return this.call("session/decide", params, options);
  }

  /** Point to an artifact by a name, or remove the name. */
  artifact(params: Params<"session/artifact">, options?: CallOptions): Promise<Result<"session/artifact">> {
    return this.call("session/artifact", params, options);
  }

  /** Count a turn of an agent, with its decision, and prune if a limit is passed. */
  task(params: Params<"session/task">, options?: CallOptions): Promise<Result<"session/task">> {
    return this.call("session/task", params, options);
  }

  /** Keep only the newest decisions in view once a limit is passed. */
  prune(params: Params<"session/prune">, options?: CallOptions): Promise<Result<"session/prune">> {
    return this.call("session/prune", params, options);
  }

  /** Return a short text for a system prompt, and what a client needs to go on. */
  brief(params: Params<"session/brief">, options?: CallOptions): Promise<Result<"session/brief">> {
    return this.call("session/brief", params, options);
  }

  /** Make a new session from the entries of another, which stays unchanged. */
  fork(params: Params<"session/fork">, options?: CallOptions): Promise<Result<"session/fork">> {
    return this.call("session/fork", params, options);
  }

  /** Make a new session of chosen entries, in a chosen order. */
  rebase(params: Params<"session/rebase">, options?: CallOptions): Promise<Result<"session/rebase">> {
    return this.call("session/rebase", params, options);
  }

  /** Make the prompt for the text that merges two sessions; changes nothing. */
  planMerge(params: Params<"session/plan_merge">, options?: CallOptions): Promise<Result<"session/plan_merge">> {
    return this.call("session/plan_merge", params, options);
  }

  /** Add the turn that merges two sessions, here or in a new session. */
  merge(params: Params<"session/merge"> & { into: "new" }, options?: CallOptions): Promise<wire.CopyResult>;
  merge(params: Params<"session/merge"> & { into?: "this" }, options?: CallOptions): Promise<wire.MergedHere>;
  merge(params: Params<"session/merge">, options?: CallOptions): Promise<Result<"session/merge">>;
  merge(params: Params<"session/merge">, options?: CallOptions): Promise<any> {
    return this.call("session/merge", params, options);
  }

  /** Copy a session under a new id, in the dialect of its file or as a native session. */
  import(params: Params<"session/import"> = {}, options?: CallOptions): Promise<Result<"session/import">> {
    return this.call("session/import", params, options);
  }

  /** Write a session to a file of its own, for a program or for people. */
  export(params: Params<"session/export">, options?: CallOptions): Promise<Result<"session/export">> {
    return this.call("session/export", params, options);
  }

  /** Take a session out of the lists and close it to changes; reads still work. */
  archive(params: Params<"session/archive">, options?: CallOptions): Promise<Result<"session/archive">> {
    return this.call("session/archive", params, options);
  }

  /** Put an archived session back into the lists. */
  unarchive(params: Params<"session/unarchive">, options?: CallOptions): Promise<Result<"session/unarchive">> {
    return this.call("session/unarchive", params, options);
  }

  /** Move a session to the trash; only session/purge removes it for good. */
  delete(params: Params<"session/delete">, options?: CallOptions): Promise<Result<"session/delete">> {
    return this.call("session/delete", params, options);
  }

  /** Return the deleted sessions, which session/restore brings back. */
  trash(params: Params<"session/trash"> = {}, options?: CallOptions): Promise<Result<"session/trash">> {
    return this.call("session/trash", params, options);
  }

  /** Bring a deleted session back from the trash. */
  restore(params: Params<"session/restore">, options?: CallOptions): Promise<Result<"session/restore">> {
    return this.call("session/restore", params, options);
  }

  /** Remove a session whose file lies outside the profile from the catalog. */
  forget(params: Params<"session/forget">, options?: CallOptions): Promise<Result<"session/forget">> {
    return this.call("session/forget", params, options);
  }

  /** Remove a deleted session from the trash for good. */
  purge(params: Params<"session/purge">, options?: CallOptions): Promise<Result<"session/purge">> {
    return this.call("session/purge", params, options);
  }

  /** List the prompts that wait for a session's agent, and remove some. */
  queue(params: Params<"session/queue">, options?: CallOptions): Promise<Result<"session/queue">> {
    return this.call("session/queue", params, options);
  }

  /** Move old sessions to the trash. */
  retentionRun(params: Params<"retention/run">, options?: CallOptions): Promise<Result<"retention/run">> {
    return this.call("retention/run", params, options);
  }

  /** Find damage in a session's file on disk. */
  verify(params: Params<"session/verify">, options?: CallOptions): Promise<Result<"session/verify">> {
    return this.call("session/verify", params, options);
  }

  /** Remove the lines that do not parse from a session's file. */
  repair(params: Params<"session/repair">, options?: CallOptions): Promise<Result<"session/repair">> {
    return this.call("session/repair", params, options);
  }
}
