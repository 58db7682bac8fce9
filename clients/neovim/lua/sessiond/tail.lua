-- A buffer that shows the newest entries of a session and follows.
--
-- Law: the page that is read first ends where the feed begins, so no entry is missing and none comes twice. A tail whose
-- feed is over begins again when the command is given again.
local render = require("sessiond.render")
local session = require("sessiond.session")
local sessiond = require("sessiond")
local view = require("sessiond.view")

local M = {}

local FIRST_ENTRIES = 200
local states = {} -- of the tails, by buffer

-- Add lines at the end; windows whose cursor is on the last line scroll along. Return the number of the first new line.
local function add(buffer, lines)
  local count = vim.api.nvim_buf_line_count(buffer)
  local is_blank = count == 1 and vim.api.nvim_buf_get_lines(buffer, 0, 1, false)[1] == ""
  local following = {}
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    if vim.api.nvim_win_get_cursor(window)[1] == count then
      following[#following + 1] = window
    end
  end
  local above = is_blank and 0 or count
  view.set_lines(buffer, above, -1, lines)
  for _, window in ipairs(following) do
    vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(buffer), 0 })
  end
  return above + 1
end

local function clear(state)
  view.set_lines(state.buffer, 0, -1, {})
  state.rows = {}
end

local function told(state, event)
  if not vim.api.nvim_buf_is_valid(state.buffer) then
    return
  elseif event.method == "session/event" then
    local first = add(state.buffer, render.lines(event.params.seq, event.params.entry))
    state.rows[#state.rows + 1] = { first, event.params.entry.id }
  elseif event.method == "session/replaced" then
    clear(state)
  end
end

local function follow(state, after)
  state.feed = sessiond.subscribe({ session_id = state.session_id, after = after, signals = false }, {
    on_event = function(event)
      told(state, event)
    end,
    on_answer = view.or_end(state),
    on_end = function(failure)
      state.is_over = true
      if vim.api.nvim_buf_is_valid(state.buffer) then
        add(state.buffer, { "── the session is over here: " .. failure.message })
      end
    end,
  })
end

local function read(state, before_seq)
  local page = { session_id = state.session_id, before_seq = before_seq, limit = FIRST_ENTRIES }
  sessiond.call("session/entries", page, view.or_end(state, function(result)
    if not vim.api.nvim_buf_is_valid(state.buffer) then
      return
    end
    clear(state)
    local last = result.entries[1]
    for index = #result.entries, 1, -1 do
      local row = result.entries[index]
      told(state, { method = "session/event", params = row })
    end
    follow(state, last and { seq = last.seq, entry_id = last.entry.id } or { seq = 0 })
  end))
end

-- Read the newest entries in place of what is shown, and follow.
local function begin(state)
  state.is_over = false
  sessiond.call("session/get", { session_id = state.session_id }, view.or_end(state, function(result)
    read(state, result.session.seq + 1)
  end))
end

-- Return the id of the entry at the cursor; the blank line below an entry belongs to that entry.
local function entry_here(state)
  local line = vim.api.nvim_win_get_cursor(0)[1]
  local found = nil
  for _, row in ipairs(state.rows) do
    if row[1] <= line then
      found = row[2]
    end
  end
  return found
end

-- Show an entry as it is stored.
function M.preview(session_id, entry_id)
  if not entry_id then
    return
  end
  local params = { session_id = session_id, entry_id = entry_id }
  sessiond.call("session/entry", params, view.or_complain(function(result)
    view.float(render.pretty(result.entry), "json")
  end))
end

-- Show the tail of a session, by a choice of the session.
function M.open(session_id, choice)
  local buffer, is_new = view.open("sessiond://tail/" .. session_id, "botright split", "sessiond-tail")
  session.use(session_id, choice, buffer)
  local state = states[buffer]
  if not is_new then
    return state and state.is_over and begin(state)
  end
  state = { buffer = buffer, session_id = session_id, rows = {} }
  states[buffer] = state
  view.on_wipeout(buffer, function()
    states[buffer] = nil
    if state.feed then
      state.feed:close()
    end
  end)
  view.set_keys(buffer, {
    { "a", "append: write a message to this session", function()
      require("sessiond.compose").open(session_id)
    end },
    { "t", "tree: show the tree of this session", function()
      require("sessiond.tree").open(session_id)
    end },
    { "<CR>", "preview: show the entry at the cursor as it is stored", function()
      M.preview(session_id, entry_here(state))
    end },
  })
  begin(state)
end

return M
