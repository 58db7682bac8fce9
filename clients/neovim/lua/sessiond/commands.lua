-- The command :Sessiond and its completion.
local session = require("sessiond.session")
local sessiond = require("sessiond")
local view = require("sessiond.view")

local M = {}

local COMPLETE_MS = 1000
local UNCHOSEN = "the command before, which chooses the session, has failed"

local function append(command, words)
  local text
  if command.range > 0 then
    text = table.concat(vim.api.nvim_buf_get_lines(0, command.line1 - 1, command.line2, false), "\n")
  elseif words ~= "" then
    text = words
  end
  local wish = { is_shown = not text, refusal = "no message begun: " .. UNCHOSEN }
  if command.range > 0 then
    wish.refusal = ("lines %d to %d not appended: %s"):format(command.line1, command.line2, UNCHOSEN)
  elseif text then
    wish.refusal = ("not appended: %s. The message is: %s"):format(UNCHOSEN, text)
  end
  session.with(wish, function(session_id, choice)
    if text then
      session.use(session_id, choice)
      require("sessiond.compose").send(session_id, text)
    else
      require("sessiond.compose").open(session_id, choice)
    end
  end)
end

-- Call `act` with the session that a command names or means.
local function with_session(command_name, session_name, is_shown, act)
  local refusal = (":Sessiond %s did nothing: %s"):format(command_name, UNCHOSEN)
  session.with({ name = session_name, is_shown = is_shown, refusal = refusal }, act)
end

local COMMANDS = {
  append = append,
  list = function()
    require("sessiond.list").open()
  end,
  new = function(_, title)
    require("sessiond.list").create(title)
  end,
  tail = function(_, name)
    with_session("tail", name, true, require("sessiond.tail").open)
  end,
  tree = function(_, name)
    with_session("tree", name, true, require("sessiond.tree").open)
  end,
  use = function(_, name)
    with_session("use", name, false, session.use)
  end,
}
local NAMES_SESSION = { tail = true, tree = true, use = true }

-- Carry out `:Sessiond NAME …`.
function M.run(command)
  local name, words = command.args:match("^%s*(%S*)%s*(.-)%s*$")
  if name == "" then
    name = "list"
  end
  if not COMMANDS[name] then
    return view.complain(("there is no :Sessiond %s; there are %s"):format(name, table.concat(M.names(), ", ")))
  end
  COMMANDS[name](command, words)
end

-- Return the names of all commands.
function M.names()
  local names = vim.tbl_keys(COMMANDS)
  table.sort(names)
  return names
end

-- Return the ids of the folder's sessions, as far as they come within a second.
local function session_ids()
  local ids
  sessiond.list({ limit = 100 }, function(_, result)
    ids = vim.tbl_map(function(info)
      return info.id
    end, result and result.sessions or {})
  end)
  vim.wait(COMPLETE_MS, function()
    return ids ~= nil
  end, 5)
  return ids or {}
end

-- Complete the name of a command, then the id of a session.
function M.complete(lead, line, position)
  local before = vim.split(vim.trim(line:sub(1, position - #lead)), "%s+")
  local candidates = {}
  if #before == 1 then
    candidates = M.names()
  elseif #before == 2 and NAMES_SESSION[before[2]] then
    candidates = session_ids()
  end
  return vim.tbl_filter(function(one)
    return vim.startswith(one, lead)
  end, candidates)
end

return M
