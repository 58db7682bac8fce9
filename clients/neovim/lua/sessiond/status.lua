-- The text for a status line. Events of the session refresh what is shown; nothing here asks by the clock.
local session = require("sessiond.session")
local view = require("sessiond.view")

local M = {}

local REFRESH_MS = 300
local shown = {}

local function redraw()
  vim.cmd("redrawstatus!")
end

local function refresh(client, state)
  local params = { session_id = state.session_id }
  client:call("session/get", params, function(_, result)
    state.title = result and result.session.title ~= vim.NIL and result.session.title or state.session_id:sub(1, 8)
    redraw()
  end)
  client:call("session/usage", params, function(_, result)
    state.tokens = result and result.tokens
    redraw()
  end)
end

-- Follow a session in place of the one before.
local function follow(client, session_id)
  if shown.feed then
    shown.feed:close()
  end
  local state = { session_id = session_id }
  shown = state
  local soon = view.debounced(REFRESH_MS, function()
    if shown == state then
      refresh(client, state)
    end
  end)
  state.feed = client:subscribe({ session_id = session_id, bodies = false, signals = false }, {
    on_event = soon,
    on_answer = soon,
  })
end

-- Return the text: title, tokens of the context, state of the connection.
function M.text(client)
  if not M.is_listening then
    M.is_listening = true
    client:on("state", redraw)
  end
  local session_id = session.current()
  if session_id and shown.session_id ~= session_id then
    -- A status line is drawn at any moment; the connection is not made from within a drawing.
    shown = { session_id = session_id, feed = shown.feed }
    vim.schedule(function()
      if shown.session_id == session_id then
        follow(client, session_id)
      end
    end)
  end
  local parts = { "sessiond" }
  if session_id then
    parts[#parts + 1] = shown.title or session_id:sub(1, 8)
    parts[#parts + 1] = shown.tokens and (shown.tokens .. " tokens") or nil
  end
  parts[#parts + 1] = client.wire.state
  return table.concat(parts, " · ")
end

return M
