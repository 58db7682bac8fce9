-- Entries as lines of text.
--
-- Law: pure functions. The content of a session is shown as text and never carried out.
local json = require("sessiond.json")

local M = {}

local TEXT_BYTES_MAX = 64 * 1024

local function block_text(block)
  if type(block) == "string" then
    return block
  elseif type(block) ~= "table" then
    return ""
  elseif type(block.text) == "string" then
    return block.text
  elseif type(block.thinking) == "string" then
    return "[thinking] " .. block.thinking
  elseif type(block.name) == "string" then
    return ("[%s] %s"):format(block.name, json.encode(block.arguments or block.input or vim.empty_dict()))
  elseif block.content ~= nil then
    return M.content_text(block.content)
  end
  return ("[%s]"):format(tostring(block.type))
end

-- Return the text of the content of a message: a text, or a list of blocks.
function M.content_text(content)
  if type(content) ~= "table" then
    return type(content) == "string" and content or ""
  end
  return table.concat(vim.tbl_map(block_text, content), "\n")
end

local TEXTS = {
  message = function(entry)
    local message = entry.message or {}
    return message.role, M.content_text(message.content or message.contents)
  end,
  custom_message = function(entry)
    return entry.custom_type, M.content_text(entry.content)
  end,
  branch_summary = function(entry)
    return "branch summary", entry.summary
  end,
  compaction = function(entry)
    return "compaction", entry.summary
  end,
  label = function(entry)
    return "label", entry.label
  end,
  session_info = function(entry)
    return "session", entry.name or entry.title
  end,
  model_change = function(entry)
    return "model", entry.model_id
  end,
  thinking_level_change = function(entry)
    return "thinking level", entry.thinking_level
  end,
  custom = function(entry)
    return entry.custom_type, nil
  end,
}

-- Return who says an entry, and the text of the entry.
function M.parts(entry)
  local who, text = nil, nil
  if TEXTS[entry.type] then
    who, text = TEXTS[entry.type](entry)
  end
  who = type(who) == "string" and who or tostring(entry.type)
  return who, type(text) == "string" and text or ""
end

-- Return the lines that show an entry: a heading, the text, a blank line.
function M.lines(seq, entry)
  local who, text = M.parts(entry)
  local time = type(entry.timestamp) == "string" and entry.timestamp:match("T(%d%d:%d%d)") or ""
  local heading = ("── %s ── #%d %s"):format(who:gsub("%c", " "), seq, time)
  local lines = { (heading:gsub("%s+$", "")) }
  if #text > TEXT_BYTES_MAX then
    text = ("%s\n… %d bytes more"):format(text:sub(1, TEXT_BYTES_MAX), #text - TEXT_BYTES_MAX)
  end
  if text ~= "" then
    vim.list_extend(lines, vim.split(text, "\n"))
  end
  lines[#lines + 1] = ""
  return lines
end

-- Return a value of JSON as lines, with two blanks for each level.
function M.pretty(value, indent)
  indent = indent or ""
  if type(value) ~= "table" or next(value) == nil then
    return { json.encode(value) }
  end
  local is_list = #value > 0
  local lines, inner = { is_list and "[" or "{" }, indent .. "  "
  local keys = vim.tbl_keys(value)
  table.sort(keys)
  for index, key in ipairs(keys) do
    local below = M.pretty(value[key], inner)
    below[1] = inner .. (is_list and "" or json.encode(key) .. ": ") .. below[1]
    below[#below] = below[#below] .. (index < #keys and "," or "")
    vim.list_extend(lines, below)
  end
  lines[#lines + 1] = indent .. (is_list and "]" or "}")
  return lines
end

return M
