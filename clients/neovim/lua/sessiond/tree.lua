-- The tree of a session in a split, which follows the session.
--
-- Law: the daemon draws the tree. A change asks for a new drawing after a pause that grows with the time of the last
-- one, so a large tree costs a bounded part of the editor's time. A tree whose feed is over begins again when the command
-- is given again.
local session = require("sessiond.session")
local sessiond = require("sessiond")
local view = require("sessiond.view")
local uv = vim.loop

local M = {}

local PAUSE_MS = 60
local PAUSE_FACTOR = 5
local states = {} -- of the trees, by buffer

-- Take the id from the end of a drawn line; return the line without the id, and the id.
local function parted(line)
  local text, id = line:match("^(.*) %(([^()]*)%)$")
  return text or line, id
end

local function entry_here(state)
  return state.ids[vim.api.nvim_win_get_cursor(0)[1]]
end

-- Draw the lines; each window keeps its cursor on its entry.
local function draw(state, text)
  local lines, ids, places = {}, {}, {}
  for index, line in ipairs(vim.split(text, "\n")) do
    lines[index], ids[index] = parted(line)
    if ids[index] then
      places[ids[index]] = index
    end
  end
  local cursors = {}
  for _, window in ipairs(vim.fn.win_findbuf(state.buffer)) do
    cursors[window] = state.ids[vim.api.nvim_win_get_cursor(window)[1]]
  end
  view.update_lines(state.buffer, lines)
  state.ids = ids
  for window, id in pairs(cursors) do
    if places[id] then
      vim.api.nvim_win_set_cursor(window, { places[id], 0 })
    end
  end
end

local function refresh(state)
  state.is_stale = true
  if state.is_waiting or not vim.api.nvim_buf_is_valid(state.buffer) then
    return
  end
  state.is_waiting = true
  vim.defer_fn(function()
    state.is_stale = false
    local params = { session_id = state.session_id, form = "text", ids = true }
    sessiond.call("session/tree", params, function(failure, result)
      state.is_waiting = false
      if not vim.api.nvim_buf_is_valid(state.buffer) then
        return
      elseif failure then
        return view.complain(failure)
      end
      local began = uv.hrtime()
      draw(state, result.text)
      state.pause_ms = math.max(PAUSE_MS, (uv.hrtime() - began) / 1e6 * PAUSE_FACTOR)
      if state.is_stale then
        refresh(state)
      end
    end)
  end, math.floor(state.pause_ms))
end

local function follow(state)
  state.is_over = false
  state.feed = sessiond.subscribe({ session_id = state.session_id, bodies = false, signals = false }, {
    on_event = function(event)
      -- The feed subscribes again to a closed session. If the feed fails, the tree cannot be drawn either.
      if event.method ~= "session/closed" then
        refresh(state)
      end
    end,
    on_answer = view.or_end(state, function()
      refresh(state)
    end),
    on_end = view.or_end(state),
  })
end

local function move(state)
  local entry_id = entry_here(state)
  if entry_id then
    sessiond.branch(state.session_id, entry_id, {}, view.or_complain())
  end
end

-- Ask for a text for the entry at the cursor, unless there is none; call `act(entry_id, text)`.
local function ask_here(state, prompt, act)
  local entry_id = entry_here(state)
  if not entry_id then
    return
  end
  vim.ui.input({ prompt = prompt }, function(text)
    if text then
      act(entry_id, text)
    end
  end)
end

-- Make a head at an entry; refuse the name of a head that exists.
local function make_head(session_id, entry_id, name)
  local function refuse()
    view.complain(("there is a head %s already"):format(name))
  end
  sessiond.heads(session_id, view.or_complain(function(result)
    for _, head in ipairs(result.heads) do
      if head.name == name then
        return refuse()
      end
    end
    -- The daemon refuses the call if another client has put a head of this name at an entry since.
    local params = { head = name, expected = { leaf_id = vim.NIL } }
    sessiond.branch(session_id, entry_id, params, function(failure)
      if failure and failure.kind == "precondition_failed" then
        refuse()
      elseif failure then
        view.complain(failure)
      end
    end)
  end))
end

local function branch(state)
  ask_here(state, "Name of the new head: ", function(entry_id, name)
    if name ~= "" then
      make_head(state.session_id, entry_id, name)
    end
  end)
end

local function label(state)
  ask_here(state, "Label (empty clears): ", function(entry_id, text)
    local params = { session_id = state.session_id, entry_id = entry_id, label = text }
    sessiond.call("session/label", params, view.or_complain())
  end)
end

-- Show the tree of a session, by a choice of the session.
function M.open(session_id, choice)
  local buffer, is_new = view.open("sessiond://tree/" .. session_id, "topleft 60vsplit", "sessiond-tree")
  session.use(session_id, choice, buffer)
  local state = states[buffer]
  if not is_new then
    return state and state.is_over and follow(state)
  end
  vim.wo.cursorline = true
  state = { buffer = buffer, session_id = session_id, ids = {}, pause_ms = 0 }
  states[buffer] = state
  view.on_wipeout(buffer, function()
    states[buffer] = nil
    state.feed:close()
  end)
  view.set_keys(buffer, {
    { "<CR>", "preview: show the entry at the cursor as it is stored", function()
      require("sessiond.tail").preview(session_id, entry_here(state))
    end },
    { "m", "move: put the head main at the entry", function()
      move(state)
    end },
    { "b", "branch: make a head with a name of yours at the entry", function()
      branch(state)
    end },
    { "l", "label: set or clear the label of the entry", function()
      label(state)
    end },
    { "a", "append: write a message to this session", function()
      require("sessiond.compose").open(session_id)
    end },
    { "t", "tail: show the newest entries", function()
      require("sessiond.tail").open(session_id)
    end },
  })
  follow(state)
end

return M
