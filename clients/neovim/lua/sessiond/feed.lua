-- A feed: the events of a session for one subscriber, each entry once and in order.
--
-- Law: a feed has a cursor of its own {seq, epoch, entry_id}, and drops the entries before that cursor. The filters of a feed
-- hold here.
local Feed = {}
Feed.__index = Feed

local function is_known(value)
  return value ~= nil and value ~= vim.NIL
end

local function has(list, value)
  for _, one in ipairs(list) do
    if one == value then
      return true
    end
  end
  return false
end

local function report(complaint)
  vim.notify("sessiond: a subscriber failed: " .. tostring(complaint), vim.log.levels.ERROR)
end

local function tell(handler, ...)
  if handler then
    local is_well, complaint = pcall(handler, ...)
    if not is_well then
      report(complaint)
    end
  end
end

-- Make a feed of a group. Handlers: on_event(event, text), on_answer(error, result) once, on_end(error).
function Feed.new(group, params, handlers)
  local is_bare = params.bodies == false
  local wants_signals = not is_bare
  if is_known(params.signals) then
    wants_signals = params.signals
  end
  return setmetatable({
    group = group,
    place = is_known(params.after) and vim.deepcopy(params.after) or nil,
    types = is_known(params.types) and params.types or nil,
    heads = is_known(params.heads) and params.heads or nil,
    is_bare = is_bare,
    wants_signals = wants_signals,
    on_event = handlers.on_event,
    on_answer = handlers.on_answer,
    on_end = handlers.on_end,
    flushes = {},
  }, Feed)
end

-- Return the cursor at which a later subscription goes on: give the cursor as `after`.
function Feed:cursor()
  return self.place and vim.deepcopy(self.place)
end

-- End the feed.
function Feed:close()
  if not self.is_over then
    self.is_over = true
    self.end_deadline()
    self.group:leave(self)
  end
end

-- Call `callback(error, seq)` once every entry that is stored by now was given to the feed.
function Feed:flush(callback)
  self.flushes[#self.flushes + 1] = callback
  if self.is_answered and self.group.is_answered then
    self:_send_flush(callback)
  end
end

function Feed:_send_flush(callback)
  local params = { session_id = self.group.session_id }
  self.group.wire:call("session/flush", params, function(failure, result)
    for index, one in ipairs(self.flushes) do
      if one == callback then
        table.remove(self.flushes, index)
        return tell(callback, failure, result and result.seq)
      end
    end
  end, { is_of_connection = true, timeout_ms = 0 })
end

-- End the feed with an error.
function Feed:finish(failure)
  if not self.is_over then
    self.is_over = true
    self.end_deadline()
    if self.is_told then
      tell(self.on_end, failure)
    else
      tell(self.on_answer, failure)
    end
    for _, callback in ipairs(self.flushes) do
      tell(callback, failure)
    end
  end
end

function Feed:_replaced(epoch, reason, text)
  -- Told by the answer and by a notification, a replacement is one event all the same.
  if not (self.place and self.place.seq == 0 and self.place.epoch == epoch) then
    self.place = { seq = 0, epoch = epoch }
    local params = { session_id = self.group.session_id, epoch = epoch, reason = reason }
    tell(self.on_event, { method = "session/replaced", params = params }, text)
  end
end

-- Take the answer to a subscription; return whether another one is needed, from the start.
function Feed:answered(result, is_fresh)
  local is_proven = self.is_proven
  self.is_answered, self.is_proven = true, true
  if not self.place then
    self.place = { seq = result.seq, epoch = result.epoch }
    self.is_synced = true
  end
  if is_fresh then
    self.is_told = true
    self.end_deadline()
    tell(self.on_answer, nil, result)
  end
  -- A cursor that held on this connection is not in question.
  if not is_proven and self.place.seq > 0 then
    local is_ahead = self.place.seq > result.seq
    if is_known(result.replaced) or is_ahead then
      self:_replaced(result.epoch, is_known(result.replaced) and result.replaced or "ahead")
    end
    if is_ahead and not is_known(result.replaced) then
      -- The rest of this replay does not begin at the first entry.
      self.is_answered = false
      return true
    end
  end
  if self.wants_signals and is_known(result.clients) and #result.clients > 0 then
    local params = { session_id = self.group.session_id, clients = result.clients }
    tell(self.on_event, { method = "session/presence", params = params })
  end
  for _, callback in ipairs(self.flushes) do
    self:_send_flush(callback)
  end
  return false
end

function Feed:_is_wanted(params)
  local entry = params.entry
  if self.types and not has(self.types, entry.type) then
    return false
  end
  return not self.heads or entry.type == "label" or entry.type == "session_info" or has(self.heads, params.head)
end

function Feed:_event(params, text)
  if self.place and params.seq <= self.place.seq then
    return
  end
  self.place = { seq = params.seq, epoch = params.epoch, entry_id = params.entry.id }
  if self.is_bare and params.entry.timestamp then
    local entry = { id = params.entry.id, type = params.entry.type, parent_id = params.entry.parent_id }
    params = vim.tbl_extend("force", params, { entry = entry })
  end
  if self:_is_wanted(params) then
    tell(self.on_event, { method = "session/event", params = params }, text)
  end
end

-- Take a notification about the session.
function Feed:told(method, params, text)
  if self.is_over or not self.is_answered then
    return
  elseif method == "session/event" then
    return self:_event(params, text)
  elseif method == "session/replaced" then
    return self:_replaced(params.epoch, params.reason, text)
  elseif method == "session/synced" then
    if self.is_synced then
      return
    end
    self.is_synced = true
    if self.place and params.seq > self.place.seq then
      self.place = { seq = params.seq, epoch = self.place.epoch }
    end
  elseif method == "session/lagged" then
    self.is_synced = false
  elseif (method == "session/signal" or method == "session/presence") and not self.wants_signals then
    return
  end
  tell(self.on_event, { method = method, params = params }, text)
end

return Feed
