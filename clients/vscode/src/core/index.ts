/** The logic of the extension, which knows no editor. */
export * from "./connection.js";
export * from "./failures.js";
export * from "./feeds.js";
export * from "./log.js";
export * from "./message.js";
export * from "./outline.js";
export * from "./refresher.js";
export * from "./render.js";
export * from "./search.js";
export * from "./sessions.js";
export * from "./usage.js";
