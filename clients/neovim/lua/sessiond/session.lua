-- The session that a command means: the session that is named, else that of the buffer, else the session used last,
-- else the newest session of the folder.
local sessiond = require("sessiond")
local view = require("sessiond.view")

local M = {}

-- Make a session the one that commands without a name mean.
function M.use(session_id, buffer)
  vim.g.sessiond_session = session_id
  if buffer then
    vim.b[buffer].sessiond_session = session_id
  end
end

-- Return the session of the current buffer, or the one last used; nil if there is none.
function M.current()
  return vim.b.sessiond_session or vim.g.sessiond_session
end

-- Call `act(session_id)` with the session that is meant; complain if there is none.
function M.with(name, act)
  if name and name ~= "" then
    return sessiond.call("session/resolve", { ref = name }, view.or_complain(function(result)
      act(result.session.id)
    end))
  end
  if M.current() then
    return act(M.current())
  end
  sessiond.list({ limit = 1 }, view.or_complain(function(result)
    if #result.sessions == 0 then
      return view.complain("no session of this folder yet; :Sessiond new makes one")
    end
    act(result.sessions[1].id)
  end))
end

return M
