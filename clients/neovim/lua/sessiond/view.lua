-- Helpers of the buffers of the plugin: scratch buffers, keys and the help for keys, messages.
local M = {}

-- Show an error to the person.
function M.complain(failure)
  local text = type(failure) == "table" and failure.message or tostring(failure)
  if type(failure) == "table" and failure.outcome_unknown then
    text = text .. "; look before you try again"
  elseif type(failure) == "table" and (failure.kind == "timeout" or failure.kind == "connection_lost") then
    text = text .. "; see `sessiond status`, then try again"
  end
  vim.notify("sessiond: " .. text, vim.log.levels.ERROR)
end

-- Return a callback that complains of an error, or calls `act(result)`.
function M.or_complain(act)
  return function(failure, result)
    if failure then
      M.complain(failure)
    elseif act then
      act(result)
    end
  end
end

-- Return the callback of `or_complain`, which notes before an error that what a buffer follows is over (`state.is_over`).
function M.or_end(state, act)
  local answered = M.or_complain(act)
  return function(failure, result)
    if failure then
      state.is_over = true
    end
    answered(failure, result)
  end
end

-- Show the buffer of a name in a window; return the buffer, and whether the buffer is new.
function M.open(name, how, filetype)
  local buffer = vim.fn.bufnr("^" .. vim.fn.escape(name, "\\[]*?{},") .. "$")
  local is_new = buffer == -1
  local window = not is_new and vim.fn.bufwinid(buffer) or -1
  if window ~= -1 then
    vim.api.nvim_set_current_win(window)
    return buffer, false
  end
  vim.cmd(how)
  if is_new then
    buffer = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(buffer, name)
  end
  vim.api.nvim_win_set_buf(0, buffer)
  vim.wo.wrap = filetype == "sessiond-tail"
  if is_new then
    vim.bo[buffer].bufhidden = "wipe"
    vim.bo[buffer].modifiable = false
    vim.bo[buffer].filetype = filetype
  end
  return buffer, is_new
end

-- Call `act` once the buffer is gone.
function M.on_wipeout(buffer, act)
  vim.api.nvim_create_autocmd("BufWipeout", { buffer = buffer, once = true, callback = act })
end

-- Replace lines of a buffer that a person cannot change.
function M.set_lines(buffer, first, last, lines)
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, first, last, false, lines)
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
end

-- Replace all lines, and touch only those between the first and the last difference.
function M.update_lines(buffer, lines)
  local old = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  local same, below = 0, 0
  local most = math.min(#old, #lines)
  while same < most and old[same + 1] == lines[same + 1] do
    same = same + 1
  end
  while below < most - same and old[#old - below] == lines[#lines - below] do
    below = below + 1
  end
  if #old ~= same + below or #lines ~= same + below then
    M.set_lines(buffer, same, #old - below, vim.list_slice(lines, same + 1, #lines - below))
  end
end

-- Show lines in a window of their own, which `q` and `<Esc>` close.
function M.float(lines, filetype)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].bufhidden = "wipe"
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].filetype = filetype or ""
  local width = 20
  for _, line in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(line))
  end
  width = math.min(width, vim.o.columns - 4)
  local height = math.max(1, math.min(#lines, vim.o.lines - 6))
  vim.api.nvim_open_win(buffer, true, {
    relative = "editor",
    row = 1,
    col = math.max(0, math.floor((vim.o.columns - width) / 2)),
    width = width,
    height = height,
    style = "minimal",
    border = "rounded",
  })
  for _, key in ipairs({ "q", "<Esc>" }) do
    vim.keymap.set("n", key, "<Cmd>close<CR>", { buffer = buffer, nowait = true })
  end
end

-- Set keys of a buffer: a list of {key, description, act}. `q` and `g?` come by themselves.
function M.set_keys(buffer, keys)
  keys = vim.list_extend(vim.list_slice(keys), { { "q", "close this window", "<Cmd>close<CR>" } })
  local help = {}
  for _, key in ipairs(keys) do
    vim.keymap.set("n", key[1], key[3], { buffer = buffer, nowait = true, desc = key[2] })
    help[#help + 1] = ("%-6s %s"):format(key[1], key[2])
  end
  help[#help + 1] = "g?     show these keys"
  vim.keymap.set("n", "g?", function()
    M.float(help)
  end, { buffer = buffer, nowait = true, desc = "show these keys" })
end

-- Return a function that acts a while after its first call, once for all calls meanwhile.
function M.debounced(milliseconds, act)
  local is_due = false
  return function()
    if not is_due then
      is_due = true
      vim.defer_fn(function()
        is_due = false
        act()
      end, milliseconds)
    end
  end
end

return M
