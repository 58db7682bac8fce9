/** A client of sessiond, the daemon that owns the sessions of coding agents. */
export type * from "../protocol.js";
export type { CallOptions, OnProgress } from "./call.js";
export { Client, connect, type ConnectOptions } from "./client.js";
export {
  CannotStart,
  ClientClosed,
  ConnectionLost,
  ForeignSocket,
  LeaseLost,
  ProtocolViolation,
  RpcError,
  SessiondError,
  Timeout,
} from "./errors.js";
export type { Flushed, SessionNotification, SubscribeParams } from "./arrivals.js";
export type { Subscription } from "./feed.js";
export type { CatalogFollow, FollowListener, SessionFollow } from "./follow.js";
export type { CatalogChanged, Hints, StateChanged } from "./hints.js";
export type { Lease, LeaseParams } from "./lease.js";
export { shellWords } from "./reach.js";
export type { Asked, Hook, Offer, OfferOptions, Purpose } from "./offer.js";
export { type DaemonInfo, difference } from "./versions.js";
