-- A client of the daemon: calls, appends that are stored once, feeds of sessions.
--
-- Law: every entry gets an id before an append is first sent. A client does not connect before its first call.
local Subscriptions = require("sessiond.subscriptions")
local Wire = require("sessiond.wire")
local json = require("sessiond.json")
local peer = require("sessiond.peer")
local uv = vim.loop

local Client = {}
Client.__index = Client

local LEAVE_MS = 5000
local VERSION = "0.1.1"

-- Return 32 random hex digits.
function Client.new_id()
  return (uv.random(16):gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
  end))
end

local function is_object(value)
  return type(value) == "table" and not json.is_raw(value)
end

local function with_id(entry)
  if is_object(entry) and entry.id == nil then
    return vim.tbl_extend("keep", { id = Client.new_id() }, entry)
  end
  return entry
end

-- Return the parameters of an append with an id for each entry, unless there is a key.
local function with_ids(params)
  if json.is_raw(params) or (params.idempotency_key ~= nil and params.idempotency_key ~= vim.NIL) then
    return params
  end
  params = vim.tbl_extend("keep", {}, params)
  if params.message ~= nil and params.entry == nil and params.entries == nil then
    params.entry = { type = "message", message = params.message }
    params.message = nil
  end
  params.entry = with_id(params.entry)
  if is_object(params.entries) then
    params.entries = vim.tbl_map(with_id, params.entries)
  end
  return params
end

-- Make a client. Options: socket, command ("sessiond"), start (true), client_id, access; all may be left out.
function Client.new(options)
  options = options or {}
  peer.require_no_uid(options)
  local self = setmetatable({ listeners = {}, wishes = {} }, Client)
  self.wire = Wire.new({
    socket = options.socket,
    command = options.command or "sessiond",
    start = options.start ~= false,
    client_id = options.client_id,
    access = options.access,
    client_info = { name = "nvim", version = VERSION },
    on_ready = function()
      self.subscriptions:ready()
    end,
    on_lost = function(fatal)
      self.subscriptions:lost(fatal)
    end,
    on_state = function(state)
      self:_tell("state", state)
    end,
    on_notification = function(method, params, text)
      if type(params) == "table" then
        self.subscriptions:told(method, params, text)
        self:_tell(method, params)
      end
    end,
    is_wanted = function()
      return self.subscriptions:is_wanted() or next(self.wishes) ~= nil
    end,
  })
  self.subscriptions = Subscriptions.new(self.wire)
  return self
end

-- Call `listener(params)` for each notification of a method, or `listener(state)` for each state of the connection ("state").
function Client:on(method, listener)
  self.listeners[method] = self.listeners[method] or {}
  table.insert(self.listeners[method], listener)
end

-- Keep a connection for a reason of this name, also without calls and feeds; end that reason if not `is_wished`.
function Client:wish(reason, is_wished)
  self.wishes[reason] = is_wished or nil
  if is_wished then
    self.wire:open()
  end
end

function Client:_tell(method, value)
  for _, listener in ipairs(self.listeners[method] or {}) do
    local is_well, complaint = pcall(listener, value)
    if not is_well then
      vim.notify("sessiond: a listener failed: " .. tostring(complaint), vim.log.levels.ERROR)
    end
  end
end

-- Call any method of the protocol; see `Wire:call`.
function Client:call(method, params, callback, options)
  params = params or vim.empty_dict()
  if is_object(params) and next(params) == nil then
    params = vim.empty_dict()
  end
  if method == "session/append" or method == "append" then
    params = with_ids(params)
  end
  return self.wire:call(method, params, callback or function() end, options)
end

-- Follow a session; `handlers` is a function for events, or a table of on_event, on_answer and on_end. Return the feed.
function Client:subscribe(params, handlers)
  return self.subscriptions:add(params, type(handlers) == "function" and { on_event = handlers } or handlers)
end

-- Wait for the outcome of the calls under way, for some seconds at most: for the end of the editor.
function Client:finish()
  if self.wire:is_busy() then
    vim.wait(LEAVE_MS, function()
      return not self.wire:is_busy()
    end, 5)
  end
end

-- End the connection.
function Client:close()
  self.wire:close()
  self.subscriptions:lost({ kind = "closed", message = "the client was closed", retryable = false, data = {} })
end

return Client
