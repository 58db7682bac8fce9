-- The Neovim client as a command of the conformance kit (tests/conformance/README.md). Standard input is descriptor 3 here:
--
--     CONFORMANCE_PAYLOADS=text|tables nvim --headless -u NONE --cmd 'set rtp^=clients/neovim' -c 'luafile …' 3<&0 </dev/null
--
-- Law: with "text" parameters and answers travel as JSON texts, as a plugin does that keeps payload bytes. With "tables"
-- each is decoded and encoded again, as most plugins do.
local Client = require("sessiond.client")
local json = require("sessiond.json")
local uv = vim.loop

local clients, feeds = {}, {}
local keeps_texts = vim.env.CONFORMANCE_PAYLOADS == "text"

-- Return whether a number of a text is spelled in a way that no number of Lua keeps.
local function loses_numbers(text)
  local bare = text:gsub("\\.", ""):gsub('"[^"]*"', "")
  for number in bare:gmatch("%-?%d[%d.eE+-]*") do
    if json.encode(tonumber(number)) ~= number then
      return true
    end
  end
  return false
end

local function value(text)
  if keeps_texts then
    return json.raw(text)
  end
  return json.decode(text)
end

local function answer(failure, result, text)
  if keeps_texts and text then
    return text
  elseif failure and failure.code then
    return json.encode({ error = { code = failure.code, message = failure.message, data = failure.data } })
  elseif failure then
    error(failure.message, 0)
  end
  return json.encode({ result = result })
end

local function client_of(step)
  if not clients[step.on] then
    local options = step.options and json.decode(step.options) or {}
    clients[step.on] = Client.new({
      socket = vim.env.CONFORMANCE_SOCKET,
      start = false,
      client_id = options.client_id,
      access = options.access,
    })
  end
  return clients[step.on]
end

local function key(step)
  return step.on .. " " .. (step.session_id or json.decode(step.params).session_id)
end

local steps = {}

function steps.connect(step, say)
  client_of(step)
  say({})
end

function steps.call(step, say)
  client_of(step):call(step.method, value(step.params), function(...)
    say({ answer = answer(...) })
  end)
end

function steps.pipeline(step, say)
  local answers, missing = {}, #step.calls
  for index, one in ipairs(step.calls) do
    client_of(step):call(one.method, value(one.params), function(...)
      answers[index] = answer(...)
      missing = missing - 1
      if missing == 0 then
        say({ answers = "[" .. table.concat(answers, ",") .. "]" })
      end
    end)
  end
end

function steps.subscribe(step, say)
  local feed = { events = {} }
  if feeds[key(step)] then
    feeds[key(step)].feed:close()
  end
  feeds[key(step)] = feed
  local function put(event, text)
    table.insert(feed.events, keeps_texts and text or json.encode(event))
    if feed.asks then
      feed.asks()
    end
  end
  feed.feed = client_of(step):subscribe(json.decode(step.params), {
    on_event = put,
    on_answer = function(failure, result)
      say({ answer = answer(failure, result) })
    end,
  })
  feed.put = put
end

function steps.flush(step, say)
  local feed = feeds[key(step)]
  feed.feed:flush(function(_, seq)
    feed.put({ method = "session/flushed", params = { session_id = step.session_id, seq = seq } })
  end)
  say({})
end

steps["next"] = function(step, say)
  local feed = feeds[key(step)]
  function feed.asks()
    if #feed.events > 0 then
      feed.asks = nil
      say({ event = table.remove(feed.events, 1) })
    end
  end
  feed.asks()
end

function steps.close(step, say)
  for name, client in pairs(vim.tbl_extend("force", {}, clients)) do
    if step.on == nil or step.on == name then
      client:close()
      clients[name] = nil
      for one in pairs(vim.tbl_extend("force", {}, feeds)) do
        if vim.startswith(one, name .. " ") then
          feeds[one] = nil
        end
      end
    end
  end
  say({})
end

local function say(line)
  local text = json.encode(next(line) == nil and vim.empty_dict() or line) .. "\n"
  while #text > 0 do
    text = text:sub(uv.fs_write(1, text, -1) + 1)
  end
end

local function act(line)
  local step = json.decode(line)
  local texts = { step.params or "" }
  for _, one in ipairs(step.calls or {}) do
    texts[#texts + 1] = one.params
  end
  if not steps[step["do"]] then
    return say({ unsupported = "no surface for " .. step["do"] })
  elseif not keeps_texts and loses_numbers(table.concat(texts, " ")) then
    return say({ unsupported = "a number in another spelling than Lua's" })
  end
  local is_well, complaint = pcall(steps[step["do"]], step, say)
  if not is_well then
    say({ failed = tostring(complaint) })
  end
end

local input, rest = uv.new_pipe(false), ""
input:open(3)
input:read_start(vim.schedule_wrap(function(_, chunk)
  if not chunk then
    vim.cmd("qa!")
  end
  rest = rest .. (chunk or "")
  for line in rest:gmatch("([^\n]*)\n") do
    act(line)
  end
  rest = rest:match("[^\n]*$")
end))
