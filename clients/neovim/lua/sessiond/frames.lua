-- The reader of a socket: cuts the bytes at line feeds, and hands out lines on the main loop.
--
-- Law: bytes are bytes until a line is whole, so a character that two reads share is never split. One turn of the loop
-- hands out lines for some milliseconds, then lets keys through. Beyond a bound the socket is not read.
local uv = vim.loop

local Frames = {}
Frames.__index = Frames

local TURN_NS = 8e6
local WAITING_BYTES_MAX = 4 * 1024 * 1024
-- An answer has at most 64 MiB, an event a little more.
local LINE_BYTES_MAX = 256 * 1024 * 1024

-- Read a pipe: call `on_line(text)` for each line and `on_end(reason)` once, on the main loop.
function Frames.read(pipe, on_line, on_end)
  local self = setmetatable({
    pipe = pipe,
    on_line = on_line,
    on_end = on_end,
    lines = {},
    first = 1,
    waiting_bytes = 0,
    rest = {},
    rest_bytes = 0,
  }, Frames)
  self:_start()
  return self
end

-- Hand out nothing more.
function Frames:stop()
  self.is_stopped = true
  self.lines = {}
end

function Frames:_start()
  self.is_reading = true
  self.pipe:read_start(function(failure, chunk)
    if chunk then
      self:_take(chunk)
    else
      self.ending = failure or "the daemon closed the connection"
    end
    if self.waiting_bytes > WAITING_BYTES_MAX then
      self.is_reading = false
      self.pipe:read_stop()
    end
    self:_schedule()
  end)
end

function Frames:_take(chunk)
  local at = 1
  while true do
    local stop = chunk:find("\n", at, true)
    local piece = chunk:sub(at, stop and stop - 1 or -1)
    self.rest[#self.rest + 1] = piece
    self.rest_bytes = self.rest_bytes + #piece
    if not stop then
      break
    end
    self.lines[#self.lines + 1] = table.concat(self.rest)
    self.waiting_bytes = self.waiting_bytes + self.rest_bytes
    self.rest, self.rest_bytes = {}, 0
    at = stop + 1
  end
  if self.rest_bytes > LINE_BYTES_MAX then
    self.ending = "the daemon sent a line that is too long"
  end
end

function Frames:_schedule()
  if not self.is_scheduled then
    self.is_scheduled = true
    vim.schedule(function()
      self:_hand_out()
    end)
  end
end

function Frames:_hand_out()
  self.is_scheduled = false
  local until_ns = uv.hrtime() + TURN_NS
  while not self.is_stopped and self.first <= #self.lines do
    local line = self.lines[self.first]
    self.lines[self.first] = false
    self.first = self.first + 1
    self.waiting_bytes = self.waiting_bytes - #line
    self.on_line(line)
    if uv.hrtime() > until_ns then
      break
    end
  end
  if self.is_stopped then
    return
  elseif self.first <= #self.lines then
    -- A timer, unlike `vim.schedule`, lets keys and redraws come first.
    self.is_scheduled = true
    vim.defer_fn(function()
      self:_hand_out()
    end, 1)
    return
  end
  self.lines, self.first = {}, 1
  if self.ending then
    self:stop()
    self.on_end(self.ending)
  elseif not self.is_reading then
    self:_start()
  end
end

return Frames
