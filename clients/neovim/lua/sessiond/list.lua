-- The sessions of a folder in a buffer, which follows the catalog. Each folder has a buffer of its own.
local session = require("sessiond.session")
local sessiond = require("sessiond")
local view = require("sessiond.view")

local M = {}

local REFRESH_MS = 100
local states = {} -- of the lists, by buffer

local function shown(info)
  local title = info.title ~= vim.NIL and info.title or info.first_message
  title = title ~= vim.NIL and title or "(no title)"
  local day = tostring(info.updated_at):sub(1, 16):gsub("T", " ")
  -- Of a large file of another agent a list may have read a part: there are at least so many messages.
  local count = ("%5d%s"):format(info.message_count or 0, info.partial and "+" or " ")
  return ("%s  %s %s"):format(day, count, title:gsub("%c", " "))
end

local function refresh(state)
  if not vim.api.nvim_buf_is_valid(state.buffer) then
    return
  end
  sessiond.list({ cwd = state.folder }, view.or_complain(function(result)
    if vim.api.nvim_buf_is_valid(state.buffer) then
      state.sessions = result.sessions
      local lines = vim.tbl_map(shown, result.sessions)
      view.update_lines(state.buffer, #lines > 0 and lines or { "No sessions of " .. state.folder .. " yet: n makes one" })
    end
  end))
end

-- Ask for hints of the catalog on this connection and on those that follow.
local function watch()
  local client = sessiond.client()
  local soon = view.debounced(REFRESH_MS, function()
    for _, state in pairs(states) do
      refresh(state)
    end
  end)
  local function subscribe()
    if next(states) and client.wire.state == "connected" then
      client:call("catalog/subscribe", nil, soon, { is_of_connection = true, timeout_ms = 0 })
    end
  end
  if not M.is_watching then
    M.is_watching = true
    client:on("catalog/changed", soon)
    client:on("state", subscribe)
  end
  client:wish("list", true)
  subscribe()
end

local function with_session(state, act)
  local info = state.sessions[vim.api.nvim_win_get_cursor(0)[1]]
  if info then
    act(info.id)
  end
end

-- Make a session in a folder, or without `folder` in that of the editor, and show the tail of the session.
function M.create(title, folder)
  local params = { persist = "immediate", cwd = folder }
  params.title = title ~= "" and title or nil
  local choice = session.begin(true, require("sessiond.tail").open)
  sessiond.create(params, session.settled_by(choice, function(result)
    return result.session.id
  end))
end

-- Show the sessions of the folder of the editor.
function M.open()
  local folder = vim.fn.getcwd()
  local buffer, is_new = view.open("sessiond://list" .. folder, "botright split", "sessiond-list")
  local state = states[buffer]
  if is_new then
    state = { buffer = buffer, folder = folder, sessions = {} }
    states[buffer] = state
    vim.wo.cursorline = true
    view.on_wipeout(buffer, function()
      states[buffer] = nil
      sessiond.client():wish("list", next(states) ~= nil)
    end)
    view.set_keys(buffer, {
      { "<CR>", "open: show the newest entries and follow", function()
        with_session(state, require("sessiond.tail").open)
      end },
      { "t", "tree: show the tree of the session", function()
        with_session(state, require("sessiond.tree").open)
      end },
      { "u", "use: let commands without a session mean this one", function()
        with_session(state, session.use)
      end },
      { "n", "new: make a session in the folder of the list", function()
        vim.ui.input({ prompt = "Title: " }, function(title)
          if title then
            M.create(title, folder)
          end
        end)
      end },
    })
  end
  if state then
    refresh(state)
  end
  watch()
end

return M
