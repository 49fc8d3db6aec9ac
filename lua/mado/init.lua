-- `require('mado')`: the same verbs as the commands, `setup{}`, and the statusline.

local M = {}

---Whether the statusline shows mado, so that changes redraw it.
M.statusline_used = false

---Merges a configuration over the defaults. Not needed to use mado.
---@param opts table?
---@return true? ok
---@return string? problem
function M.setup(opts)
  if vim.fn.has('nvim-0.11') == 0 then
    local text = 'mado: needs Neovim 0.11 or newer'
    vim.notify(text, vim.log.levels.ERROR)
    return nil, text
  end
  local ok, problem = require('mado.config').set(opts)
  if not ok then
    vim.notify('mado: ' .. problem, vim.log.levels.ERROR)
    return nil, problem
  end
  return true
end

---The project's agents and routes in one line; empty when nothing runs. It only returns what is known.
---@return string
function M.statusline()
  M.statusline_used = true
  return require('mado.state').status(require('mado.project').current())
end

-- Each verb is `verb(opts?, cb?)`: it returns a value or `nil, err` at once, and never waits. Verbs that need the
-- host return `true` when they are under way, and then call `cb(value, err)`; without a callback an error
-- becomes a notification. See |mado-lua|.
for _, name in ipairs({
  'adopt',
  'agents',
  'answer',
  'attach',
  'close',
  'connect',
  'disconnect',
  'drop',
  'fire',
  'focus',
  'handoff',
  'hide',
  'hops',
  'host',
  'load',
  'log',
  'next',
  'open',
  'pause',
  'preview',
  'queue',
  'rename',
  'restart',
  'resume',
  'routes',
  'save',
  'send',
  'toggle',
  'transform',
  'trigger',
}) do
  M[name] = function(...)
    return require('mado.verbs')[name](...)
  end
end

return M
