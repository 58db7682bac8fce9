-- The command alone: all else is loaded by the first use.
if vim.g.loaded_sessiond or vim.fn.has("nvim-0.7") == 0 then
  return
end
vim.g.loaded_sessiond = 1

vim.api.nvim_create_user_command("Sessiond", function(command)
  require("sessiond.commands").run(command)
end, {
  nargs = "*",
  range = true,
  desc = "Sessions of coding agents: list, tree, tail, append",
  complete = function(...)
    return require("sessiond.commands").complete(...)
  end,
})
