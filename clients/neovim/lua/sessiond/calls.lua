-- The calls that have no outcome yet, in the order in which they were made.
--
-- Law: a call ends once. A request is sent a second time only if that is safe: the daemon did nothing, or the call only
-- reads, or the call carries ids by which the daemon recognises a repetition. A retry has the bytes of the first try.
local errors = require("sessiond.errors")
local json = require("sessiond.json")
local timers = require("sessiond.timers")

local Calls = {}
Calls.__index = Calls

local LOSSES_MAX = 10
local STORAGE_RETRIES_MAX = 4

local function set(text)
  local found = {}
  for word in text:gmatch("%S+") do
    found[word] = true
  end
  return found
end

-- Methods that change nothing, as far as a second time would change it again.
local READS = set([[
  build_context catalog/forest catalog/roots catalog/subscribe catalog/unsubscribe rpc.discover secret/list server/info
  server/ping server/stats session/brief session/build_context session/close session/entries session/entry session/flush
  session/get session/heads session/labels session/list session/open session/path session/plan_branch_summary
  session/plan_compaction session/plan_merge session/presence session/queue session/resolve session/resolve_entries
  session/search session/stats session/trash session/tree session/turns session/unsubscribe session/usage session/verify
  state/all state/get state/list unsubscribe
]])

-- Mutations that, carried out twice, do what they do once.
local SAFE = set([[
  scope/resolve scope/switch secret/get session/acquire session/archive session/delete session/release session/renew
  session/unarchive
]])

local function is_repeatable(method, params)
  if method == "session/append" or method == "append" then
    -- The client gives ids to all entries of an append that has no key; a text is not looked into.
    return not json.is_raw(params)
  elseif json.is_raw(params) then
    return READS[method] or SAFE[method] or false
  elseif method == "session/open" then
    return not params.create
  end
  return READS[method] or SAFE[method] or type(params.idempotency_key) == "string"
end

-- Return whether the daemon may have changed something for a call, or may yet do so.
local function may_be_done(call)
  return call.is_outcome_unknown or (call.is_sent and not call.is_read)
end

-- Make the calls of a connection: `send(text)` sends a message and returns true, or returns false without a connection.
function Calls.new(send)
  return setmetatable({ send = send, waiting = {}, last_id = 0 }, Calls)
end

-- Add a call and send its request, if that is possible now. Return the id of the call.
function Calls:add(method, params, callback, options, bytes_max)
  self.last_id = self.last_id + 1
  local call = {
    id = self.last_id,
    method = method,
    callback = callback,
    is_of_connection = options.is_of_connection,
    is_repeatable = is_repeatable(method, params),
    is_read = READS[method] and is_repeatable(method, params),
    losses = 0,
    refusals = 0,
  }
  local is_json, text = pcall(json.encode, { jsonrpc = "2.0", id = call.id, method = method, params = params })
  if not is_json then
    self:refuse(callback, errors.of_client("invalid_params", text))
  elseif #text > bytes_max then
    local why = ("the request has %d bytes, more than the daemon takes"):format(#text)
    self:refuse(callback, errors.of_client("too_large", why))
  else
    call.text = text
    self.waiting[call.id] = call
    self:_set_deadline(call, options.timeout_ms or timers.ANSWER_MS)
    self:_offer(call)
  end
  return call.id
end

-- Tell a caller of an error, after the call has returned.
function Calls:refuse(callback, failure)
  vim.schedule(function()
    callback(failure)
  end)
end

function Calls:_set_deadline(call, milliseconds)
  if milliseconds > 0 then
    call.end_deadline = timers.later(milliseconds, function()
      local text = "no answer to " .. call.method .. " in time"
      self:_give_up(call, errors.of_client("timeout", text, may_be_done(call)))
    end)
  end
end

-- Give up a call.
function Calls:cancel(id)
  local call = self.waiting[id]
  if call then
    self:_give_up(call, errors.of_client("cancelled", "the call was given up", may_be_done(call)))
  end
end

-- Return whether calls wait that another connection may answer.
function Calls:is_busy()
  for _, call in pairs(self.waiting) do
    if not call.is_of_connection then
      return true
    end
  end
  return false
end

-- Send what has no answer, in the order in which the calls were made.
function Calls:offer_all()
  for _, call in ipairs(self:_in_order()) do
    self:_offer(call)
  end
end

-- Take an answer. `message` is nil if the answer cannot be decoded.
function Calls:answer(id, message, line)
  local call = self.waiting[id]
  if not call then
    return -- the late answer to a call that was given up
  elseif not message then
    return self:_settle(call, errors.of_client("unreadable", "Neovim cannot decode the answer"))
  elseif message.error == nil then
    return self:_settle(call, nil, message.result, line)
  end
  local refusal = errors.of_answer(message.error)
  if call.is_of_connection or not self:_is_for_now(call, refusal) then
    return self:_settle(call, refusal, nil, line)
  end
  call.is_sent, call.is_delayed = false, true
  vim.defer_fn(function()
    call.is_delayed = false
    self:_offer(call)
  end, math.max(refusal.data.retry_after_ms or 0, timers.pause_ms(call.refusals)))
end

-- Return whether the daemon did nothing, or ids make another try safe.
function Calls:_is_for_now(call, refusal)
  call.refusals = call.refusals + 1
  if refusal.kind == "storage_error" then
    call.is_outcome_unknown = not call.is_read
    return refusal.retryable and call.is_repeatable and call.refusals <= STORAGE_RETRIES_MAX
  end
  return refusal.kind == "overloaded" or refusal.kind == "draining"
end

-- Take the end of the connection. `nothing_done`: the daemon took nothing of it. `fatal`: there will be no other one.
function Calls:lose(reason, nothing_done, fatal)
  for _, call in ipairs(self:_in_order()) do
    local is_doubtful = call.is_sent and not nothing_done
    call.is_sent = false
    if call.is_of_connection then
      self.waiting[call.id] = nil
    elseif fatal then
      -- An earlier daemon may have had the call.
      local is_unknown = call.is_outcome_unknown or fatal.outcome_unknown
      self:_settle(call, vim.tbl_extend("force", fatal, { outcome_unknown = is_unknown }))
    elseif is_doubtful then
      call.losses = call.losses + 1
      call.is_outcome_unknown = not call.is_read
      if not call.is_repeatable or call.losses > LOSSES_MAX then
        local text = ("the connection broke before %s was answered (%s)"):format(call.method, reason)
        self:_settle(call, errors.of_client("connection_lost", text, call.is_outcome_unknown))
      end
    end
  end
end

-- End all calls.
function Calls:close()
  for _, call in ipairs(self:_in_order()) do
    self:_settle(call, errors.of_client("closed", "the client was closed before the answer", may_be_done(call)))
  end
end

function Calls:_in_order()
  local calls = vim.tbl_values(self.waiting)
  table.sort(calls, function(one, other)
    return one.id < other.id
  end)
  return calls
end

function Calls:_offer(call)
  if not call.is_sent and not call.is_delayed and self.waiting[call.id] then
    call.is_sent = self.send(call.text)
  end
end

function Calls:_give_up(call, failure)
  if call.is_sent then
    self.send(json.encode({ jsonrpc = "2.0", method = "$/cancelRequest", params = { id = call.id } }))
  end
  self:_settle(call, failure)
end

function Calls:_settle(call, failure, result, line)
  if self.waiting[call.id] ~= call then
    return
  end
  self.waiting[call.id] = nil
  if call.end_deadline then
    call.end_deadline()
  end
  local is_well, complaint = pcall(call.callback, failure, result, line)
  if not is_well then
    vim.notify("sessiond: a callback failed: " .. tostring(complaint), vim.log.levels.ERROR)
  end
end

return Calls
