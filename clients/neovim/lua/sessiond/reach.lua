-- The way to a connection: the path of the socket, and a daemon that is started where none listens.
--
-- Law: the two short commands of sessiond are the only processes that this client starts.
local errors = require("sessiond.errors")
local peer = require("sessiond.peer")
local uv = vim.loop

local M = {}

local START_MS = 60000

local function command(options, word)
  local words = options.socket and { word, "--socket", options.socket } or { word }
  local own = vim.env.SESSIOND_COMMAND
  if own and own ~= "" then
    -- The variable holds a command line as a shell reads it.
    return "sh", vim.list_extend({ "-c", own .. ' "$@"', "sh" }, words)
  end
  return options.command, words
end

local function last_line(parts)
  local lines = vim.split(vim.trim(table.concat(parts)), "\n")
  return lines[#lines] ~= "" and lines[#lines] or nil
end

-- Run a command of sessiond; call `done(error, output)` on the main loop.
local function run(options, word, done)
  local program, words = command(options, word)
  local output, complaints = {}, {}
  local stdout, stderr, timer = uv.new_pipe(false), uv.new_pipe(false), uv.new_timer()
  local child, reason, status
  local open_ends = 3
  -- The command is over when its process has ended and both pipes are read to their ends.
  local function end_one()
    open_ends = open_ends - 1
    if open_ends > 0 then
      return
    end
    for _, handle in pairs({ stdout, stderr, timer, child }) do
      handle:close()
    end
    vim.schedule(function()
      if status == 0 then
        return done(nil, table.concat(output))
      end
      local why = reason or last_line(complaints) or ("status " .. status)
      done(errors.of_client("cannot_start", "sessiond " .. word .. ": " .. why))
    end)
  end
  child, reason = uv.spawn(program, { args = words, stdio = { nil, stdout, stderr } }, function(code)
    status = code
    end_one()
  end)
  if not child then
    status, open_ends = -1, 1
    return end_one()
  end
  reason = nil
  timer:start(START_MS, 0, function()
    reason = "no end in time"
    child:kill("sigkill")
  end)
  for pipe, parts in pairs({ [stdout] = output, [stderr] = complaints }) do
    pipe:read_start(function(_, chunk)
      if chunk then
        parts[#parts + 1] = chunk
      else
        pipe:read_stop()
        end_one()
      end
    end)
  end
end

-- Connect a pipe; call `done(problem, pipe, flaw)` on the main loop. A flaw says why another user may listen.
local function connect(path, done)
  local address, flaw, release = peer.own_address(path)
  if not address then
    return vim.schedule(function()
      done(peer.refusal(path, flaw), nil, flaw)
    end)
  end
  local pipe = uv.new_pipe(false)
  local function finish(failure)
    release()
    if failure then
      pipe:close()
    end
    vim.schedule(function()
      done(failure, not failure and pipe or nil)
    end)
  end
  -- A path that cannot be an address fails at once, by an exception.
  local is_begun, failure = pcall(pipe.connect, pipe, address, finish)
  if not is_begun then
    finish(tostring(failure))
  end
end

local function find(options, done)
  local path = options.socket or vim.env.SESSIOND_SOCKET
  if path and path ~= "" then
    return done(nil, path)
  end
  run(options, "sockname", function(failure, output)
    done(failure, output and vim.trim(output))
  end)
end

-- Connect to the daemon, and start it if none listens; call `done(error, pipe)` on the main loop.
function M.connect(options, done)
  find(options, function(unknown, path)
    if unknown then
      return done(unknown)
    end
    local function finish(failure, pipe, flaw)
      if flaw then
        return done(errors.of_client("foreign_socket", failure))
      end
      done(failure and errors.of_client("connection_lost", "cannot connect: " .. failure), pipe)
    end
    connect(path, function(failure, pipe, flaw)
      local nobody_listens = failure and (failure:match("^ENOENT") or failure:match("^ECONNREFUSED"))
      if not nobody_listens or not options.start then
        return finish(failure, pipe, flaw)
      end
      run(options, "start", function(refusal)
        if refusal then
          return done(refusal)
        end
        connect(path, finish)
      end)
    end)
  end)
end

return M
