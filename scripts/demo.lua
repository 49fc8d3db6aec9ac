-- What `make demo` opens: two demo agents, one routed into the other. With MADO_DEMO_HEADLESS it also plays the
-- person, and Neovim ends with 0 only if the route's hop was answered.

local headless = vim.env.MADO_DEMO_HEADLESS ~= nil
local mado = require('mado')

-- How long the scripted demo may take, milliseconds. It needs about five seconds.
local LIMIT_MS = 60000

local function finish(code, why)
  if why then
    io.stderr:write(why, '\n')
  end
  vim.cmd('cquit ' .. code)
end

local function check(err)
  if not err then
    return true
  elseif headless then
    finish(1, 'demo: ' .. tostring(err))
  else
    vim.notify('mado: ' .. tostring(err), vim.log.levels.ERROR)
  end
  return false
end

local hint = 'Type a line at the left, Enter · Alt-l log · Alt-p pause · Alt-q ends the demo'

local function decorate()
  vim.o.laststatus = 3
  vim.o.statusline = ' ' .. hint .. " %= %{v:lua.require'mado'.statusline()} "
  local modes = { 'n', 't' }
  vim.keymap.set(modes, '<M-l>', '<Plug>(mado-log)')
  vim.keymap.set(modes, '<M-p>', '<Plug>(mado-toggle)')
  vim.keymap.set(modes, '<M-n>', '<Plug>(mado-next)')
  vim.keymap.set(modes, '<M-q>', '<Cmd>qall!<CR>')
end

local function play()
  vim.api.nvim_create_autocmd('User', {
    pattern = 'MadoRouteHop',
    callback = function(args)
      local hop = args.data.hop
      if hop.route and hop.state == 'answered' then
        finish(0)
      elseif vim.list_contains({ 'failed', 'stopped', 'unconfirmed' }, hop.state) then
        finish(1, ('demo: hop %d is %s: %s'):format(hop.id, hop.state, hop.reason_text))
      end
    end,
  })
  mado.send({ agent = 'planner', text = 'Plan a small release.' }, function(_, err)
    check(err)
  end)
end

local function connect()
  mado.connect({
    source = 'planner',
    target = 'reviewer',
    trigger = 'on-turn',
    template = 'Review this plan of {source}:\n{output}',
  }, function(_, err)
    if check(err) and headless then
      play()
    end
  end)
end

decorate()
-- Nobody types in the scripted demo, and its mode would only be shown.
mado.setup({ insert = not headless })
local start = vim.api.nvim_get_current_win()
local waiting = 2
local function opened(_, err)
  waiting = waiting - 1
  if check(err) and waiting == 0 then
    connect()
  end
end
mado.open(
  { profile = 'demo', name = 'planner', args = { '--role', 'planner' }, split = 'left' },
  opened
)
mado.open({
  profile = 'demo',
  name = 'reviewer',
  args = { '--role', 'reviewer' },
  split = 'right',
  enter = false,
}, opened)
vim.api.nvim_win_close(start, true)
vim.cmd('wincmd =')
if headless then
  vim.defer_fn(function()
    finish(1, ('demo: not answered within %d s'):format(LIMIT_MS / 1000))
  end, LIMIT_MS)
end
