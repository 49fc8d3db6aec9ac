-- The project that a command is about: the agent's under the cursor, else that of the working directory.

local M = {}

---The git root above a directory, else the directory itself. Worked out as the host does it: on the real
---path, and `.git` may be a file (worktrees, submodules).
---@param dir string
---@return string
function M.of(dir)
  dir = vim.uv.fs_realpath(dir) or dir
  return vim.fs.root(dir, '.git') or dir
end

-- `getcwd()` is asked for with every completion and statusline, so the walk up is done once per directory.
local known = {}

---@return string
function M.current()
  local agent = vim.b.mado_project
  if agent then
    return agent
  end
  local cwd = vim.fn.getcwd()
  known[cwd] = known[cwd] or M.of(cwd)
  return known[cwd]
end

---Forgets what was found, since a `git init` changes it. Called by commands, not by completion.
function M.refresh()
  known = {}
end

return M
