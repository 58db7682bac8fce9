-- The rule by which nothing is sent to another user: Neovim does not tell the user at the other end of a socket, so the
-- folder of the socket must be this user's alone.
local bit = require("bit")
local uv = vim.loop

local M = {}

local OWN_FOLDERS = "/proc/self/fd"
local ROOT = 0
local PRIVATE, PERMISSIONS = 448, 511 -- 0700, 0777
local STICKY, WRITABLE_BY_OTHERS = 512, 18 -- 01000, 0022

local function is_own(uid)
  return uid == uv.getuid() or uid == ROOT
end

local function octal(mode)
  return ("%04o"):format(bit.band(mode, 4095))
end

local function of_another(name, uid)
  return ("%s belongs to another user (uid %d)"):format(name, uid)
end

local function flaw_of_folder(folder, found)
  if found.uid ~= uv.getuid() then
    return of_another(folder, found.uid)
  elseif bit.band(found.mode, PERMISSIONS) ~= PRIVATE then
    return ("%s has the mode %s in place of 0700"):format(folder, octal(found.mode))
  end
end

-- Return why another user could put another folder in the place of this one, or nil.
local function flaw_of_way(folder)
  for _, below in ipairs({ folder, uv.fs_realpath(folder) }) do
    while below ~= "/" do
      below = vim.fn.fnamemodify(below, ":h")
      local found = uv.fs_lstat(below)
      if not found then
        return below .. " is gone"
      elseif not is_own(found.uid) then
        return of_another(below, found.uid)
      elseif
        found.type == "directory"
        and bit.band(found.mode, WRITABLE_BY_OTHERS) ~= 0
        and bit.band(found.mode, STICKY) == 0
      then
        return ("%s has the mode %s: other users may write to it"):format(below, octal(found.mode))
      end
    end
  end
end

local function flaw_of_file(name)
  local found = uv.fs_lstat(name)
  if found and found.type == "link" then
    return "the socket is a link"
  elseif found and not is_own(found.uid) then
    return of_another("the socket", found.uid)
  end
end

-- Return the address of a socket, nil, and a function that lets go of the address; or nil and why another user may listen.
--
-- A folder that is missing has no flaw: nothing listens there.
function M.own_address(path)
  path = vim.fn.fnamemodify(path, ":p")
  local folder = vim.fn.fnamemodify(path, ":h")
  local seen = uv.fs_lstat(folder)
  if not seen then
    return path, nil, function() end
  elseif seen.type ~= "directory" then
    return nil, folder .. " is a link, or no folder"
  elseif not uv.fs_stat(OWN_FOLDERS) then
    local flaw = flaw_of_folder(folder, seen) or flaw_of_way(folder) or flaw_of_file(path)
    return not flaw and path or nil, flaw, function() end
  end
  -- The descriptor is of the folder that was looked at, whatever happens to its name.
  local descriptor, problem = uv.fs_open(folder, "r", 0)
  if not descriptor then
    return nil, problem
  end
  local found = uv.fs_fstat(descriptor)
  local name = ("%s/%d/%s"):format(OWN_FOLDERS, descriptor, vim.fn.fnamemodify(path, ":t"))
  local is_same = found.dev == seen.dev and found.ino == seen.ino
  local flaw = not is_same and folder .. " was changed meanwhile"
    or flaw_of_folder(folder, found)
    or flaw_of_file(name)
  if flaw then
    uv.fs_close(descriptor)
    return nil, flaw
  end
  return name, nil, function()
    uv.fs_close(descriptor)
  end
end

-- Return the text of the refusal to send to a socket.
function M.refusal(path, flaw)
  return ("nothing was sent to %s, for another user may listen there: %s; "):format(path, flaw)
    .. "mend that, or name a socket in a folder of your own with mode 0700"
end

-- Fail if options permit another user.
function M.require_no_uid(options)
  if options.peer_uid ~= nil then
    error(
      "sessiond: peer_uid: Neovim does not tell the user at the other end of a socket, so none can be permitted",
      0
    )
  end
end

return M
