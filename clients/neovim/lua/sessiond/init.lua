-- The surface for other plugins: one shared client, and functions with callbacks `callback(error, result)`.
--
-- Law: nothing connects before the first call. `error` is nil or {code, kind, message, retryable, data, outcome_unknown}.
local M = {}

local MESSAGES_MAX = 10000

local options = {}
local shared

-- Set options before the first use; all have defaults. Members: socket, command, start, client_id.
function M.setup(chosen)
  require("sessiond.peer").require_no_uid(chosen or {})
  options = vim.tbl_extend("force", options, chosen or {})
end

-- Return the client that all of this editor shares.
function M.client()
  if not shared then
    shared = require("sessiond.client").new(options)
    vim.api.nvim_create_autocmd("VimLeavePre", {
      group = vim.api.nvim_create_augroup("sessiond", {}),
      callback = function()
        shared:finish()
      end,
    })
  end
  return shared
end

-- Call any method by its name in the protocol.
function M.call(method, params, callback, call_options)
  return M.client():call(method, params, callback, call_options)
end

-- Create a session; without `cwd` in the folder of the editor.
function M.create(params, callback)
  return M.call("session/create", vim.tbl_extend("keep", params or {}, { cwd = vim.fn.getcwd() }), callback)
end

-- Open a session by its id.
function M.open(session_id, callback)
  return M.call("session/open", { session_id = session_id }, callback)
end

-- Append: `what` is a text of the user, or the parameters of session/append without the session.
function M.append(session_id, what, callback)
  local params = type(what) == "table" and what or { message = { role = "user", content = what } }
  return M.call("session/append", vim.tbl_extend("force", params, { session_id = session_id }), callback)
end

-- Put a head at an entry. `params` may have `head`, `summary`, `expected`.
function M.branch(session_id, entry_id, params, callback)
  local place = { session_id = session_id, entry_id = entry_id or vim.NIL }
  return M.call("session/branch", vim.tbl_extend("force", params or {}, place), callback)
end

-- List the heads of a session.
function M.heads(session_id, callback)
  return M.call("session/heads", { session_id = session_id }, callback)
end

-- Build the context of a model, by pages if it is larger than an answer. `params` may have `head`, `shape`,
-- `if_none_match`, `known`.
function M.context(session_id, params, callback)
  local given = vim.tbl_extend("force", params or {}, { session_id = session_id })
  local whole
  local function take(failure, page)
    if failure then
      return callback(failure)
    end
    whole = whole or vim.tbl_extend("force", page, { messages = {}, sources = {} })
    vim.list_extend(whole.messages, page.messages or {})
    vim.list_extend(whole.sources, page.sources or {})
    given.cursor = page.next_cursor
    if not given.cursor or given.cursor == vim.NIL then
      whole.next_cursor = nil
      return callback(nil, whole)
    end
    M.call("session/build_context", given, take)
  end
  return M.call("session/build_context", given, function(failure, ...)
    if failure and (failure.data or {}).pages == true then
      given.limit = MESSAGES_MAX
      return M.call("session/build_context", given, take)
    end
    callback(failure, ...)
  end)
end

-- List sessions; without `cwd` those of the folder of the editor.
function M.list(params, callback)
  return M.call("session/list", vim.tbl_extend("keep", params or {}, { cwd = vim.fn.getcwd() }), callback)
end

-- Follow a session; see `Client:subscribe`. Return a feed with cursor(), flush(callback) and close().
function M.subscribe(params, handlers)
  return M.client():subscribe(params, handlers)
end

-- Return a JSON text as a value that is sent byte for byte.
function M.raw(text)
  return require("sessiond.json").raw(text)
end

-- Return the text for a status line: the connection, the title and the tokens of the session of the current buffer.
function M.statusline()
  if not shared then
    return ""
  end
  return require("sessiond.status").text(shared)
end

return M
