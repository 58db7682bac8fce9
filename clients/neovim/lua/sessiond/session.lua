-- The session that a command means: the session that is named, else that of the buffer, else the session used last,
-- else the newest session of the folder.
--
-- Law: choices count in the order in which the person made them, whatever the order of the answers. A command that
-- rests on a choice without an answer waits for that answer, and does nothing if the choice fails.
local sessiond = require("sessiond")
local view = require("sessiond.view")

local M = {}

local last_number = 0
local used_number = 0 -- the number of the choice that `vim.g.sessiond_session` comes from
local unanswered = {} -- choices without an answer, the oldest one first

local function next_number()
  last_number = last_number + 1
  return last_number
end

-- Make a session the one that commands without a name mean, unless the person has made a later choice than `choice`.
-- Without `choice`, the person chooses now. Bind `buffer` to the session, if there is one.
function M.use(session_id, choice, buffer)
  local number = choice and choice.number or next_number()
  if number >= used_number then
    used_number = number
    vim.g.sessiond_session = session_id
  end
  if buffer then
    vim.b[buffer].sessiond_session = session_id
  end
end

-- Return the session of the current buffer, or the one last used; nil if there is none.
function M.current()
  return vim.b.sessiond_session or vim.g.sessiond_session
end

-- Begin a choice whose session is not known yet; call `act(session_id, choice)` once the session is known.
-- `is_shown` says that `act` brings the person to a buffer of the session.
function M.begin(is_shown, act)
  local choice = { number = next_number(), is_shown = is_shown, followers = {} }
  choice.followers[1] = function(session_id)
    if session_id then
      act(session_id, choice)
    end
  end
  table.insert(unanswered, choice)
  return choice
end

-- Settle a choice with its session, or with nil if the choice failed; then the commands that rest on the choice go on.
function M.settle(choice, session_id)
  for index, one in ipairs(unanswered) do
    if one == choice then
      table.remove(unanswered, index)
      break
    end
  end
  for _, follower in ipairs(choice.followers) do
    local is_well, complaint = pcall(follower, session_id)
    if not is_well then
      view.complain(complaint)
    end
  end
end

-- Return a callback that settles a choice by an answer; `pick(result)` returns the id of the session, or nil and why.
function M.settled_by(choice, pick)
  return function(failure, result)
    local session_id = nil
    if not failure then
      session_id, failure = pick(result)
    end
    if not session_id then
      view.complain(failure)
    end
    M.settle(choice, session_id)
  end
end

-- Return the choice without an answer that a command without a session rests on; nil if there is none.
local function awaited()
  local newest
  for index = #unanswered, 1, -1 do
    local choice = unanswered[index]
    if choice.number < used_number then
      break
    elseif choice.is_shown then
      -- The command will run in a buffer of that session, and the session of the buffer wins.
      return choice
    end
    newest = newest or choice
  end
  return not vim.b.sessiond_session and newest or nil
end

-- Call `act(session_id, choice)` with the session that a command means; complain if there is none.
--
-- Members of `wish`: `name`, the session as the person named it; `is_shown`, see `begin`; `refusal`, the complaint if
-- the choice that the command rests on fails.
function M.with(wish, act)
  local is_named = wish.name ~= nil and wish.name ~= ""
  local before = not is_named and awaited()
  local choice = M.begin(wish.is_shown, act)
  if is_named then
    sessiond.call("session/resolve", { ref = wish.name }, M.settled_by(choice, function(result)
      return result.session.id
    end))
  elseif before then
    table.insert(before.followers, function(session_id)
      if not session_id then
        view.complain(wish.refusal)
      end
      M.settle(choice, session_id)
    end)
  elseif M.current() then
    M.settle(choice, M.current())
  else
    sessiond.list({ limit = 1 }, M.settled_by(choice, function(result)
      local newest = result.sessions[1]
      return newest and newest.id, "no session of this folder yet; :Sessiond new makes one"
    end))
  end
end

return M
