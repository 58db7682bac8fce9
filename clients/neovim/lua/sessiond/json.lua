-- JSON as sessiond wants it: every digit of a number, objects with sorted keys, valid UTF-8.
--
-- Law: equal values have equal texts, so a retry carries the bytes of the first try. Neovim's own encoder writes
-- fourteen digits and keeps no order. A null is `vim.NIL`, an empty object is `vim.empty_dict()`, `{}` is a list.
local M = { null = vim.NIL }

local DEPTH_MAX = 512
local RAW = {}
local EMPTY_OBJECT = getmetatable(vim.empty_dict())
local REPLACEMENT = "\239\191\189"
local SHORT = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function is_tail(byte)
  return byte ~= nil and byte >= 0x80 and byte <= 0xBF
end

-- Return the bytes of the character at a place, or nil if no valid character begins there.
local function character_size(text, at)
  local a, b, c, d = text:byte(at, at + 3)
  if a >= 0xC2 and a <= 0xDF then
    return is_tail(b) and 2 or nil
  elseif a >= 0xE0 and a <= 0xEF then
    local is_odd = (a == 0xE0 and b and b < 0xA0) or (a == 0xED and b and b > 0x9F)
    return is_tail(b) and is_tail(c) and not is_odd and 3 or nil
  elseif a >= 0xF0 and a <= 0xF4 then
    local is_odd = (a == 0xF0 and b and b < 0x90) or (a == 0xF4 and b and b > 0x8F)
    return is_tail(b) and is_tail(c) and is_tail(d) and not is_odd and 4 or nil
  end
end

local function repaired(run)
  local parts, at = {}, 1
  while at <= #run do
    local size = character_size(run, at)
    parts[#parts + 1] = size and run:sub(at, at + size - 1) or REPLACEMENT
    at = at + (size or 1)
  end
  return table.concat(parts)
end

local function escaped(character)
  return SHORT[character] or string.format("\\u%04x", character:byte())
end

local function quoted(text)
  if text:find("[\128-\255]") then
    text = text:gsub("[\128-\255]+", repaired)
  end
  return '"' .. text:gsub('[%c"\\]', escaped) .. '"'
end

local function number(value)
  if value ~= value or value == math.huge or value == -math.huge then
    error("JSON has no such number", 0)
  elseif value == math.floor(value) and math.abs(value) < 1e17 then
    return string.format("%.0f", value)
  end
  for digits = 14, 17 do
    local text = string.format("%." .. digits .. "g", value)
    if tonumber(text) == value then
      return text
    end
  end
end

local encoded

local function object(value, depth)
  local keys, parts = {}, {}
  for key in pairs(value) do
    if type(key) ~= "string" then
      error("a table has text keys or the keys 1 to n, not both and no holes", 0)
    end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  for index, key in ipairs(keys) do
    parts[index] = quoted(key) .. ":" .. encoded(value[key], depth)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local function list(value, depth)
  local parts = {}
  for index = 1, #value do
    parts[index] = encoded(value[index], depth)
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function is_list(value)
  local count = 0
  for _ in pairs(value) do
    count = count + 1
  end
  return count == #value and getmetatable(value) ~= EMPTY_OBJECT
end

function encoded(value, depth)
  local kind = type(value)
  if value == nil or value == vim.NIL then
    return "null"
  elseif kind == "string" then
    return quoted(value)
  elseif kind == "number" then
    return number(value)
  elseif kind == "boolean" then
    return tostring(value)
  elseif kind ~= "table" then
    error("JSON has no value for a " .. kind, 0)
  elseif getmetatable(value) == RAW then
    return value.text
  elseif depth >= DEPTH_MAX then
    error("tables are nested too deeply", 0)
  end
  return is_list(value) and list(value, depth + 1) or object(value, depth + 1)
end

-- Return a value that stands for a JSON text, which is sent as it is. The text must be valid JSON without line breaks.
function M.raw(text)
  return setmetatable({ text = text }, RAW)
end

-- Return whether a value was made by `raw`.
function M.is_raw(value)
  return type(value) == "table" and getmetatable(value) == RAW
end

-- Return the JSON text of a value; raise a text if there is none.
function M.encode(value)
  return encoded(value, 0)
end

-- Return a text in which halves of characters (`\ud83d` alone), which no decoder of Neovim takes, are U+FFFD.
local function without_halves(text)
  -- JSON has no bare control characters, so three of them can stand for escapes here.
  text = text:gsub("\\\\", "\1")
  text = text:gsub("\\u([dD][89abAB]%x%x)\\u([dD][c-fC-F]%x%x)", "\2%1\3%2")
  text = text:gsub("\\u[dD][89a-fA-F]%x%x", "\\ufffd")
  return (text:gsub("\2", "\\u"):gsub("\3", "\\u"):gsub("\1", "\\\\"))
end

-- Return the value of a JSON text; raise a text if it is no JSON.
function M.decode(text)
  local is_json, value = pcall(vim.json.decode, text)
  return is_json and value or vim.json.decode(without_halves(text))
end

return M
