-- Errors as tables: {code, kind, message, retryable, data, outcome_unknown}.
--
-- Law: `kind` decides, `message` is for people. Errors of this client have no code. Their kinds are connection_lost,
-- timeout, cannot_start, foreign_socket, closed, cancelled, unreadable, too_large, invalid_params.
local M = {}

-- Return an error of this client.
function M.of_client(kind, message, outcome_unknown)
  return {
    kind = kind,
    message = message,
    retryable = false,
    data = {},
    outcome_unknown = outcome_unknown or false,
  }
end

-- Return the error of an error answer.
function M.of_answer(answer)
  local data = type(answer.data) == "table" and answer.data or {}
  return {
    code = answer.code,
    kind = data.kind or "unknown",
    message = answer.message,
    retryable = data.retryable == true,
    data = data,
    outcome_unknown = false,
  }
end

return M
