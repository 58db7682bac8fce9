-- Subscriptions of one client: every entry once and in order, over any number of lost connections.
--
-- Law: a connection has one subscription for a session, which all feeds of that session share: it begins at the
-- earliest of their cursors. The daemon is asked to filter only where all feeds agree.
local Feed = require("sessiond.feed")
local errors = require("sessiond.errors")
local timers = require("sessiond.timers")

local Group = {}
Group.__index = Group
local Subscriptions = {}
Subscriptions.__index = Subscriptions

-- Return the parameters of the subscription that serves all feeds.
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
      if failure.kind == "session_not_found" and self.closed_reason == "deleted" then
        failure.message = "the session was deleted"
      end
      return self:finish(failure)
    end
    self.is_answered = true
    self.closed_reason = nil
    self.failures = 0
    local is_needed_again = false
    for _, feed in ipairs(vim.list_slice(self.feeds)) do
      is_needed_again = feed:answered(result, not feed.is_told) or is_needed_again
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
  end, timers.pause_ms(self.failures))
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
    feed:finish(failure)
  end
end

function Group:told(method, params, text)
  for _, feed in ipairs(vim.list_slice(self.feeds)) do
    feed:told(method, params, text)
  end
  if method == "session/closed" and #self.feeds > 0 then
    -- The daemon has let go of the session: subscribing again goes on, or says why not.
    self.is_answered = false
    self.closed_reason = params.reason
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

-- Add a feed of a session; see `Feed.new`.
function Subscriptions:add(params, handlers)
  local group = self.groups[params.session_id]
  if not group then
    group = { owner = self, wire = self.wire, session_id = params.session_id, feeds = {}, turn = 0, failures = 0 }
    self.groups[params.session_id] = setmetatable(group, Group)
  end
  local feed = Feed.new(group, params, handlers)
  feed.end_deadline = timers.later(timers.ANSWER_MS, function()
    group:leave(feed)
    feed:finish(errors.of_client("timeout", "not subscribed in time"))
  end)
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
