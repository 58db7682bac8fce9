-- Times: actions that come later, and pauses between tries.
local uv = vim.loop

-- The time for an answer: for all tries of a call, and for the first answer to a feed.
local M = { ANSWER_MS = 30000 }

local PAUSE_FIRST_MS = 50
local PAUSE_LONGEST_MS = 2000

-- Act on the main loop after a time; return a function that prevents it.
function M.later(milliseconds, act)
  local timer = uv.new_timer()
  local is_over = false
  timer:start(milliseconds, 0, function()
    timer:close()
    vim.schedule(function()
      if not is_over then
        act()
      end
    end)
  end)
  return function()
    is_over = true
    if not timer:is_closing() then
      timer:close()
    end
  end
end

-- Return the pause before a try, in milliseconds: doubled each time, bounded, less up to half by chance.
function M.pause_ms(failures)
  local longest = math.min(PAUSE_LONGEST_MS, PAUSE_FIRST_MS * 2 ^ math.min(failures - 1, 16))
  return math.ceil(longest * (0.5 + 0.5 * math.random()))
end

return M
