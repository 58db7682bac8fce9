-- One connection to the daemon, which is made again when it breaks, and the calls that have no outcome yet.
--
-- Law: a call ends once. A request is sent a second time only if that cannot do a thing twice: the daemon said that it
-- did nothing, or the call reads, or carries ids that the daemon knows again. A retry has the bytes of the first try.
-- Nothing here waits: every outcome is a callback on the main loop.
local Frames = require("sessiond.frames")
local errors = require("sessiond.errors")
local json = require("sessiond.json")
local reach = require("sessiond.reach")
local uv = vim.loop

local Wire = {}
Wire.__index = Wire

local PAUSE_FIRST_MS = 50
local PAUSE_LONGEST_MS = 2000
local LOSSES_MAX = 10
local STORAGE_RETRIES_MAX = 4
local TIMEOUT_MS = 30000
local FRAME_BYTES_MAX = 32 * 1024 * 1024
local HELLO_ID = 0

local function set(text)
  local found = {}
  for word in text:gmatch("%S+") do
    found[word] = true
  end
  return found
end

-- Methods that, carried out twice, do what they do once.
local REPEATABLE = set([[
  build_context catalog/forest catalog/roots catalog/subscribe catalog/unsubscribe rpc.discover scope/resolve scope/switch
  secret/list server/info server/ping server/stats session/acquire session/archive session/brief session/build_context
  session/close session/delete session/entries session/entry session/get session/heads session/labels session/list
  session/open session/path session/plan_branch_summary session/plan_compaction session/plan_merge session/presence
  session/queue session/release session/renew session/resolve session/resolve_entries session/search session/stats
  session/trash session/tree session/turns session/unarchive session/unsubscribe session/usage session/verify state/all
  state/get state/list unsubscribe
]])

-- Act on the main loop after a time; return a function that prevents it.
local function later(milliseconds, act)
  local timer = uv.new_timer()
  local is_over = false
  timer:start(milliseconds, 0, function()
    timer:close()
    vim.schedule(function()
      if not is_over then
        act()
      end
    end)
  end)
  return function()
    is_over = true
    if not timer:is_closing() then
      timer:close()
    end
  end
end

local function is_repeatable(method, params)
  if json.is_raw(params) then
    return REPEATABLE[method] or false
  elseif method == "session/open" then
    return not params.create
  elseif method == "session/append" or method == "append" then
    -- The client gives ids to all entries of an append that has no key.
    return true
  end
  return REPEATABLE[method] or type(params.idempotency_key) == "string"
end

-- Make a wire. Options: socket, command, start, client_id, client_info, access; on_ready(), on_lost(), on_state(state),
-- on_notification(method, params, text), is_wanted().
function Wire.new(options)
  return setmetatable({
    options = options,
    calls = {},
    last_id = HELLO_ID,
    failures = 0,
    retry_after_ms = 0,
    frame_bytes_max = FRAME_BYTES_MAX,
    state = "idle",
  }, Wire)
end

-- Send a request; call `callback(error, result, text)` once, with the text of the answer as the daemon wrote it.
--
-- Options: timeout_ms (30,000, for all tries; 0 is for ever), is_of_connection (drop the call when the connection ends).
-- The id that is returned can be given to `cancel`.
function Wire:call(method, params, callback, options)
  options = options or {}
  self.last_id = self.last_id + 1
  local call = {
    id = self.last_id,
    method = method,
    callback = callback,
    is_of_connection = options.is_of_connection,
    is_repeatable = is_repeatable(method, params),
    losses = 0,
    refusals = 0,
  }
  local is_json, text = pcall(json.encode, { jsonrpc = "2.0", id = call.id, method = method, params = params })
  local refusal = nil
  if self.is_closed then
    refusal = errors.of_client("closed", "the client is closed")
  elseif not is_json then
    refusal = errors.of_client("invalid_params", text)
  elseif #text > self.frame_bytes_max then
    refusal = errors.of_client("too_large", ("the request has %d bytes, more than the daemon takes"):format(#text))
  end
  if refusal then
    vim.schedule(function()
      callback(refusal)
    end)
    return call.id
  end
  call.text = text
  self.calls[call.id] = call
  local timeout_ms = options.timeout_ms or TIMEOUT_MS
  if timeout_ms > 0 then
    call.end_deadline = later(timeout_ms, function()
      local is_unknown = call.is_outcome_unknown or call.is_sent
      self:_give_up(call, errors.of_client("timeout", "no answer to " .. method .. " in time", is_unknown))
    end)
  end
  self:_offer(call)
  self:open()
  return call.id
end

-- Give up a call.
function Wire:cancel(id)
  local call = self.calls[id]
  if call then
    self:_give_up(call, errors.of_client("cancelled", "the call was given up", call.is_sent))
  end
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
      self.fatal = failure.kind == "cannot_start" and failure or nil
      return self:_lose(failure.message)
    end
    self:_begin(pipe)
  end)
end

-- End the connection for good; calls without an answer fail.
function Wire:close()
  if self.is_closed then
    return
  end
  self.is_closed = true
  self:_hang_up()
  self:_set_state("closed")
  for _, call in ipairs(self:_in_order()) do
    self:_settle(call, errors.of_client("closed", "the client was closed before the answer", call.is_sent))
  end
end

-- Return whether calls wait that another connection may answer.
function Wire:is_busy()
  for _, call in pairs(self.calls) do
    if not call.is_of_connection then
      return true
    end
  end
  return false
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

-- Go on after the greeting: a daemon that ends takes connections that it never serves, so all else waits for it.
function Wire:_greeted(result)
  local limits = type(result.limits) == "table" and result.limits or {}
  self.frame_bytes_max = limits.max_frame_bytes or self.frame_bytes_max
  self.failures = 0
  self:_set_state("connected")
  for _, call in ipairs(self:_in_order()) do
    self:_offer(call)
  end
  self.options.on_ready()
end

function Wire:_in_order()
  local calls = vim.tbl_values(self.calls)
  table.sort(calls, function(one, other)
    return one.id < other.id
  end)
  return calls
end

function Wire:_offer(call)
  if self.state == "connected" and not call.is_sent and not call.is_delayed and self.calls[call.id] then
    call.is_sent = true
    self:_send(call.text)
  end
end

function Wire:_take(line)
  if line:match("^%s*$") then
    return
  end
  local is_json, message = pcall(json.decode, line)
  if not is_json then
    -- The value is beyond what Lua can hold. An answer still has an outcome, and a notification is left out.
    local id = tonumber(line:match('^{"jsonrpc":"2.0","id":(%d+),'))
    local call = id and self.calls[id]
    return call and self:_settle(call, errors.of_client("unreadable", "Neovim cannot decode the answer"))
  elseif type(message) ~= "table" then
    return
  elseif message.method then
    self:_told(message, line)
  elseif message.id == HELLO_ID then
    self:_hello_answered(message)
  elseif message.id == nil or message.id == vim.NIL then
    -- Which request was meant is not known, so no other answer is sure to come.
    local refusal = errors.of_answer(message.error or {})
    self.retry_after_ms = refusal.data.retry_after_ms or 0
    self:_lose(refusal.message or "an answer without an id", refusal.data.closing == true)
  elseif self.calls[message.id] then
    self:_answered(self.calls[message.id], message, line)
  end
end

function Wire:_hello_answered(message)
  if message.error == nil then
    return self:_greeted(message.result)
  end
  local refusal = errors.of_answer(message.error)
  if refusal.retryable then
    self.retry_after_ms = refusal.data.retry_after_ms or 0
  else
    self.fatal = refusal
  end
  self:_lose(refusal.message, refusal.retryable)
end

function Wire:_told(message, line)
  if message.id ~= nil then
    local refusal = { code = -32601, message = "this client offered nothing" }
    self:_send(json.encode({ jsonrpc = "2.0", id = message.id, error = refusal }))
  elseif message.method == "server/draining" then
    self.retry_after_ms = message.params.retry_after_ms or 0
    if not self:is_busy() then
      self:_lose("the daemon ends")
    end
  else
    self.options.on_notification(message.method, message.params, line)
  end
end

function Wire:_answered(call, message, line)
  if message.error == nil then
    return self:_settle(call, nil, message.result, line)
  end
  local refusal = errors.of_answer(message.error)
  call.refusals = call.refusals + 1
  local is_storage = refusal.kind == "storage_error"
  call.is_outcome_unknown = call.is_outcome_unknown or is_storage
  local is_for_now = refusal.kind == "overloaded"
    or refusal.kind == "draining"
    or (is_storage and refusal.retryable and call.is_repeatable and call.refusals <= STORAGE_RETRIES_MAX)
  if call.is_of_connection or not is_for_now then
    return self:_settle(call, refusal, nil, line)
  end
  call.is_sent, call.is_delayed = false, true
  vim.defer_fn(function()
    call.is_delayed = false
    self:_offer(call)
  end, math.max(refusal.data.retry_after_ms or 0, Wire.pause_ms(call.refusals)))
end

-- Return the pause before a try, in milliseconds: doubled each time, bounded, less up to half by chance.
function Wire.pause_ms(failures)
  local longest = math.min(PAUSE_LONGEST_MS, PAUSE_FIRST_MS * 2 ^ math.min(failures - 1, 16))
  return math.ceil(longest * (0.5 + 0.5 * math.random()))
end

function Wire:_settle(call, failure, result, line)
  if self.calls[call.id] ~= call then
    return
  end
  self.calls[call.id] = nil
  if call.end_deadline then
    call.end_deadline()
  end
  local is_well, complaint = pcall(call.callback, failure, result, line)
  if not is_well then
    vim.notify("sessiond: a callback failed: " .. tostring(complaint), vim.log.levels.ERROR)
  end
end

function Wire:_give_up(call, failure)
  if call.is_sent and self.state == "connected" then
    self:_send(json.encode({ jsonrpc = "2.0", method = "$/cancelRequest", params = { id = call.id } }))
  end
  self:_settle(call, failure)
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

-- Give up the connection, and plan the next one if there is a use for it. `nothing_done`: the daemon refused the connection.
function Wire:_lose(reason, nothing_done)
  self:_hang_up()
  self.failures = self.failures + 1
  self:_set_state("waiting")
  for _, call in ipairs(self:_in_order()) do
    local was_sent = call.is_sent
    call.is_sent = false
    call.losses = call.losses + (was_sent and not nothing_done and 1 or 0)
    if call.is_of_connection then
      self.calls[call.id] = nil
    elseif self.fatal then
      self:_settle(call, self.fatal)
    elseif was_sent and not nothing_done then
      call.is_outcome_unknown = true
      if not call.is_repeatable or call.losses > LOSSES_MAX then
        local text = ("the connection broke before %s was answered (%s)"):format(call.method, reason)
        self:_settle(call, errors.of_client("connection_lost", text, true))
      end
    end
  end
  self.options.on_lost(self.fatal)
  local pause = math.max(self.retry_after_ms, Wire.pause_ms(self.failures))
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
