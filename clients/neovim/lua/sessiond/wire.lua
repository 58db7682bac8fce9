-- One connection to the daemon, which is made again when it breaks.
--
-- Law: a connection is greeted (`initialize`) before anything else is sent, for a daemon that ends takes connections that
-- it never serves. No function here waits: every outcome is a callback on the main loop.
local Calls = require("sessiond.calls")
local Frames = require("sessiond.frames")
local errors = require("sessiond.errors")
local json = require("sessiond.json")
local reach = require("sessiond.reach")
local timers = require("sessiond.timers")

local Wire = {}
Wire.__index = Wire

local FRAME_BYTES_MAX = 32 * 1024 * 1024
local HELLO_ID = 0

-- Return a version as a text that sorts as its numbers do. Neovim compares versions itself since 0.9 only.
local function in_order(version)
  return (version:gsub("%d+", function(number)
    return ("0"):rep(9 - #number) .. number
  end))
end

-- Make a wire. Options: socket, command, start, client_id, client_info, access; on_ready(), on_lost(fatal),
-- on_state(state), on_notification(method, params, text), is_wanted().
function Wire.new(options)
  local self = setmetatable({
    options = options,
    failures = 0,
    retry_after_ms = 0,
    frame_bytes_max = FRAME_BYTES_MAX,
    state = "idle",
  }, Wire)
  self.calls = Calls.new(function(text)
    if self.state ~= "connected" then
      return false
    end
    self:_send(text)
    return true
  end)
  return self
end

-- Send a request; call `callback(error, result, text)` once, with the text of the answer as the daemon wrote it.
--
-- Options: timeout_ms (30,000, for all tries; 0 is for ever), is_of_connection (drop the call when the connection ends).
-- The id that is returned can be given to `cancel`.
function Wire:call(method, params, callback, options)
  if self.is_closed then
    return self.calls:refuse(callback, errors.of_client("closed", "the client is closed"))
  end
  local id = self.calls:add(method, params, callback, options or {}, self.frame_bytes_max)
  self:open()
  return id
end

-- Give up a call.
function Wire:cancel(id)
  self.calls:cancel(id)
end

-- Return whether calls wait for an answer.
function Wire:is_busy()
  return self.calls:is_busy()
end

-- Connect, unless there is a connection or one is on its way.
function Wire:open()
  if self.state ~= "idle" or self.is_closed then
    return
  end
  self.fatal = nil
  self:_set_state("connecting")
  reach.connect(self.options, function(failure, pipe)
    if self.is_closed then
      return pipe and pipe:close()
    elseif failure then
      -- No daemon comes by waiting, and no other user becomes this one.
      self.fatal = failure.kind ~= "connection_lost" and failure or nil
      return self:_lose(failure.message)
    end
    self:_begin(pipe)
  end)
end

-- End the connection for good; calls without an answer fail.
function Wire:close()
  if not self.is_closed then
    self.is_closed = true
    self:_hang_up()
    self:_set_state("closed")
    self.calls:close()
  end
end

function Wire:_set_state(state)
  if self.state ~= state then
    self.state = state
    self.options.on_state(state)
  end
end

function Wire:_begin(pipe)
  self.pipe = pipe
  self.frames = Frames.read(pipe, function(line)
    self:_take(line)
  end, function(reason)
    self:_lose(reason)
  end)
  local hello = {
    protocol_versions = { "1.0" },
    client_info = self.options.client_info,
    client_id = self.options.client_id,
    access = self.options.access,
  }
  self:_send(json.encode({ jsonrpc = "2.0", id = HELLO_ID, method = "initialize", params = hello }))
end

function Wire:_send(text)
  self.pipe:write(text .. "\n")
end

function Wire:_take(line)
  if line:match("^%s*$") then
    return
  end
  local is_json, message = pcall(json.decode, line)
  if not is_json then
    -- The value is beyond what Lua can hold. An answer still has an outcome, and a notification is left out.
    local id = tonumber(line:match('^{"jsonrpc":"2.0","id":(%d+),'))
    return id and self.calls:answer(id, nil)
  elseif type(message) ~= "table" then
    return
  elseif message.method then
    self:_told(message, line)
  elseif message.id == HELLO_ID then
    self:_greeted(message)
  elseif message.id == nil or message.id == vim.NIL then
    -- The request that was meant is not known, so no other answer is sure to come.
    local refusal = errors.of_answer(message.error or {})
    self.retry_after_ms = refusal.data.retry_after_ms or 0
    self:_lose(refusal.message or "an answer without an id", refusal.data.closing == true)
  else
    self.calls:answer(message.id, message, line)
  end
end

function Wire:_greeted(message)
  if message.error ~= nil then
    local refusal = errors.of_answer(message.error)
    self.retry_after_ms = refusal.data.retry_after_ms or 0
    self.fatal = not refusal.retryable and refusal or nil
    return self:_lose(refusal.message, true)
  end
  local limits = type(message.result.limits) == "table" and message.result.limits or {}
  self.frame_bytes_max = limits.max_frame_bytes or self.frame_bytes_max
  self.failures = 0
  self:_tell_another(message.result)
  self:_set_state("connected")
  self.calls:offer_all()
  self.options.on_ready()
end

-- Say once that the daemon is of another version than this plugin.
function Wire:_tell_another(result)
  local daemon = type(result.server_info) == "table" and result.server_info or {}
  local own = self.options.client_info.version
  if type(daemon.version) ~= "string" or daemon.version == own or result.instance_id == self.instance_id then
    return
  end
  self.instance_id = result.instance_id
  local age = in_order(daemon.version) > in_order(own) and "newer" or "older"
  local text = "sessiond: the running daemon is %s (%s) than this plugin (%s): `sessiond restart` replaces it"
  vim.schedule(function()
    vim.notify(text:format(age, daemon.version, own), vim.log.levels.WARN)
  end)
end

function Wire:_told(message, line)
  if message.id ~= nil then
    local refusal = { code = -32601, message = "this client offered nothing" }
    self:_send(json.encode({ jsonrpc = "2.0", id = message.id, error = refusal }))
  elseif message.method == "server/draining" then
    self.retry_after_ms = type(message.params) == "table" and message.params.retry_after_ms or 0
    if not self:is_busy() then
      self:_lose("the daemon ends")
    end
  else
    self.options.on_notification(message.method, message.params, line)
  end
end

function Wire:_hang_up()
  if self.frames then
    self.frames:stop()
    self.frames = nil
  end
  if self.pipe then
    self.pipe:close()
    self.pipe = nil
  end
end

-- Give up the connection, and plan the next one if there is a use for it.
function Wire:_lose(reason, nothing_done)
  self:_hang_up()
  self.failures = self.failures + 1
  self:_set_state("waiting")
  self.calls:lose(reason, nothing_done, self.fatal)
  self.options.on_lost(self.fatal)
  local pause = math.max(self.retry_after_ms, timers.pause_ms(self.failures))
  self.retry_after_ms = 0
  vim.defer_fn(function()
    if not self.is_closed then
      self:_set_state("idle")
      if self:is_busy() or self.options.is_wanted() then
        self:open()
      end
    end
  end, pause)
end

return Wire
