-- Subscriptions of one client: every entry once and in order, over any number of lost connections.
--
-- Law: a connection has one subscription for a session, which all feeds of that session share. Each feed has a cursor of
-- its own {seq, epoch, entry_id}, and drops what it was given already. A feed's filters hold here; the daemon is
-- asked to filter only where all feeds of a session agree.
local errors = require("sessiond.errors")

local Feed = {}
Feed.__index = Feed
local Group = {}
Group.__index = Group
local Subscriptions = {}
Subscriptions.__index = Subscriptions

local function known(value)
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

-- Return the cursor at which a later subscription goes on: give the cursor as `after`.
function Feed:cursor()
  return self.place and vim.deepcopy(self.place)
end

-- End the feed.
function Feed:close()
  if not self.is_over then
    self.is_over = true
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

function Feed:_end(failure)
  if not self.is_over then
    self.is_over = true
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
function Feed:_answered(result, is_fresh)
  local is_proven = self.is_proven
  self.is_answered, self.is_proven = true, true
  if not self.place then
    self.place = { seq = result.seq, epoch = result.epoch }
    self.is_synced = true
  end
  if is_fresh then
    self.is_told = true
    tell(self.on_answer, nil, result)
  end
  -- A cursor that held on this connection is not in question.
  if not is_proven and self.place.seq > 0 then
    local is_ahead = self.place.seq > result.seq
    if known(result.replaced) or is_ahead then
      self:_replaced(result.epoch, known(result.replaced) and result.replaced or "ahead")
    end
    if is_ahead and not known(result.replaced) then
      -- What still comes of this subscription is not from the start.
      self.is_answered = false
      return true
    end
  end
  if self.wants_signals and known(result.clients) and #result.clients > 0 then
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

function Feed:_told(method, params, text)
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

-- Return what the daemon is asked for on behalf of all feeds.
function Group:_params()
  local first = self.feeds[1]
  local params = { session_id = self.session_id, types = first.types, heads = first.heads, signals = false }
  params.bodies = not first.is_bare
  local after
  for _, feed in ipairs(self.feeds) do
    params.types = vim.deep_equal(params.types, feed.types) and params.types or nil
    params.heads = vim.deep_equal(params.heads, feed.heads) and params.heads or nil
    params.bodies = params.bodies or not feed.is_bare
    params.signals = params.signals or feed.wants_signals
    -- Of equal cursors the newest one is sent, for no answer has proven that one yet.
    if feed.place and (not after or feed.place.seq <= after.seq) then
      after = feed.place
    end
  end
  if after then
    -- The start alone, or one proof that the daemon checks.
    params.after = { seq = after.seq }
    if after.seq > 0 then
      params.after.entry_id = after.entry_id
      params.after.epoch = not after.entry_id and after.epoch or nil
    end
  end
  return params
end

function Group:subscribe()
  self.turn = self.turn + 1
  self.is_answered = false
  local turn = self.turn
  self.wire:call("session/subscribe", self:_params(), function(failure, result)
    if turn ~= self.turn or #self.feeds == 0 then
      return
    elseif failure and (failure.retryable or failure.kind == "unreadable") then
      return self:_subscribe_later()
    elseif failure then
      return self:finish(failure)
    end
    self.is_answered = true
    self.failures = 0
    local is_needed_again = false
    for _, feed in ipairs(vim.list_slice(self.feeds)) do
      is_needed_again = feed:_answered(result, not feed.is_told) or is_needed_again
    end
    if is_needed_again then
      self:subscribe()
    end
  end, { is_of_connection = true, timeout_ms = 0 })
end

-- Subscribe again after a pause that grows.
function Group:_subscribe_later()
  self.failures = self.failures + 1
  local turn = self.turn
  vim.defer_fn(function()
    if turn == self.turn and #self.feeds > 0 and self.wire.state == "connected" then
      self:subscribe()
    end
  end, self.wire.pause_ms(self.failures))
end

function Group:leave(feed)
  for index, one in ipairs(self.feeds) do
    if one == feed then
      table.remove(self.feeds, index)
    end
  end
  if #self.feeds == 0 then
    self.turn = self.turn + 1
    self.owner.groups[self.session_id] = nil
    if self.wire.state == "connected" then
      self.wire:call("session/unsubscribe", { session_id = self.session_id }, function() end)
    end
  end
end

-- End all feeds of the session.
function Group:finish(failure)
  self.owner.groups[self.session_id] = nil
  self.turn = self.turn + 1
  local feeds = self.feeds
  self.feeds = {}
  for _, feed in ipairs(feeds) do
    feed:_end(failure)
  end
end

function Group:told(method, params, text)
  for _, feed in ipairs(vim.list_slice(self.feeds)) do
    feed:_told(method, params, text)
  end
  if method == "session/closed" and #self.feeds > 0 then
    -- The daemon has let go of the session: subscribing again goes on, or says why not.
    self.is_answered = false
    self:lost()
    self:_subscribe_later()
  end
end

function Group:lost()
  self.is_answered = false
  self.turn = self.turn + 1
  for _, feed in ipairs(self.feeds) do
    feed.is_synced, feed.is_proven = false, false
  end
end

function Subscriptions.new(wire)
  return setmetatable({ wire = wire, groups = {} }, Subscriptions)
end

-- Add a feed of a session. Handlers: on_event(event, text), on_answer(error, result) once, on_end(error).
function Subscriptions:add(params, handlers)
  local group = self.groups[params.session_id]
  if not group then
    group = { owner = self, wire = self.wire, session_id = params.session_id, feeds = {}, turn = 0, failures = 0 }
    self.groups[params.session_id] = setmetatable(group, Group)
  end
  local is_bare = params.bodies == false
  local wants_signals = not is_bare
  if known(params.signals) then
    wants_signals = params.signals
  end
  local feed = setmetatable({
    group = group,
    place = known(params.after) and vim.deepcopy(params.after) or nil,
    types = known(params.types) and params.types or nil,
    heads = known(params.heads) and params.heads or nil,
    is_bare = is_bare,
    wants_signals = wants_signals,
    on_event = handlers.on_event,
    on_answer = handlers.on_answer,
    on_end = handlers.on_end,
    flushes = {},
  }, Feed)
  table.insert(group.feeds, feed)
  if self.wire.is_closed then
    vim.schedule(function()
      group:finish(errors.of_client("closed", "the client is closed"))
    end)
  elseif self.wire.state == "connected" then
    group:subscribe()
  else
    self.wire:open()
  end
  return feed
end

-- Subscribe again on a new connection.
function Subscriptions:ready()
  for _, group in pairs(self.groups) do
    group:subscribe()
  end
end

-- Take the end of a connection; `fatal` is the reason why there will be no other one.
function Subscriptions:lost(fatal)
  for _, group in pairs(vim.tbl_extend("force", {}, self.groups)) do
    group:lost()
    if fatal then
      group:finish(fatal)
    end
  end
end

-- Hand a notification to the feeds of its session.
function Subscriptions:told(method, params, text)
  local group = self.groups[params.session_id]
  if group then
    group:told(method, params, text)
  end
end

function Subscriptions:is_wanted()
  return next(self.groups) ~= nil
end

return Subscriptions
