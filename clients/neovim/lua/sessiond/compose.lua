-- Messages of the person: from a command, from lines of a buffer, or from a buffer that is sent when it is written.
--
-- Law: a text that was not answered for keeps its entry id, so writing the buffer again stores the message once.
local Client = require("sessiond.client")
local session = require("sessiond.session")
local sessiond = require("sessiond")
local view = require("sessiond.view")

local M = {}

local WRITE_MS = 10000

-- Append a text of the person; `done(error, result)`.
function M.send(session_id, text, done, entry_id)
  local entry = { type = "message", id = entry_id, message = { role = "user", content = text } }
  sessiond.append(session_id, { entry = entry }, done or view.or_complain(function(result)
    vim.notify(("sessiond: stored as #%d"):format(result.seq))
  end))
end

local function write(state)
  local text = table.concat(vim.api.nvim_buf_get_lines(state.buffer, 0, -1, false), "\n")
  if vim.trim(text) == "" then
    return view.complain("there is no text to append")
  end
  if state.text ~= text then
    state.text, state.entry_id = text, Client.new_id()
  end
  local failure, result
  M.send(state.session_id, text, function(...)
    failure, result = ...
  end, state.entry_id)
  -- A person who writes waits for the outcome: `:wq` must not drop a text that was not stored.
  vim.wait(WRITE_MS, function()
    return failure ~= nil or result ~= nil
  end, 5)
  if not result then
    return view.complain(failure or "no answer yet; write again to go on, the message is stored once")
  end
  vim.bo[state.buffer].modified = false
  local buffer = state.buffer
  vim.schedule(function()
    local is_unchanged = vim.api.nvim_buf_is_valid(buffer) and not vim.bo[buffer].modified
    if is_unchanged then
      vim.api.nvim_buf_delete(buffer, { force = true })
    end
  end)
end

-- Open a buffer for a message to a session, by a choice of the session; to write the buffer sends the message.
function M.open(session_id, choice)
  local buffer = view.open("sessiond://append/" .. session_id, "botright 8split", "markdown")
  session.use(session_id, choice, buffer)
  if vim.bo[buffer].buftype == "acwrite" then
    return
  end
  vim.bo[buffer].buftype = "acwrite"
  vim.bo[buffer].modifiable = true
  vim.bo[buffer].bufhidden = "hide"
  local state = { buffer = buffer, session_id = session_id }
  vim.api.nvim_create_autocmd("BufWriteCmd", {
    buffer = buffer,
    callback = function(event)
      if event.file == vim.api.nvim_buf_get_name(buffer) then
        return write(state)
      end
      -- `:write NAME` keeps a copy in a file, as in any buffer.
      vim.fn.writefile(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), event.file)
    end,
  })
  view.set_keys(buffer, { { "<CR>", "send: append the text of this buffer", "<Cmd>write<CR>" } })
end

return M
