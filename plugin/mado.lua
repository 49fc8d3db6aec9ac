-- Commands, <Plug> mappings and the few autocommands that must exist before anything is loaded.
-- Nothing is required here: the first use of a command loads the rest.

if vim.g.loaded_mado then
  return
end
vim.g.loaded_mado = true

if vim.fn.has('nvim-0.11') == 0 then
  local v = vim.version()
  vim.api.nvim_create_user_command('Mado', function()
    local have = ('%d.%d.%d'):format(v.major, v.minor, v.patch)
    local text = 'mado: needs Neovim 0.11 or newer, this is %s: update Neovim'
    vim.notify(text:format(have), vim.log.levels.ERROR)
  end, { nargs = '*', bang = true, range = true, desc = 'mado (needs Neovim 0.11)' })
  return
end

-- Every subcommand, in the order of completion. `bang` and `range` say what `:Mado{Sub}` takes, `plug`
-- that it has a <Plug> mapping. What each one does stands in lua/mado/commands.lua under the same name.
local subcommands = {
  { 'open' },
  { 'adopt' },
  { 'attach' },
  { 'focus' },
  { 'hide' },
  { 'rename' },
  { 'close' },
  { 'restart' },
  { 'connect', bang = true },
  { 'disconnect' },
  { 'trigger' },
  { 'transform' },
  { 'pause', plug = true },
  { 'resume', plug = true },
  { 'toggle', plug = true },
  { 'fire' },
  { 'preview', plug = true },
  { 'drop' },
  { 'handoff' },
  { 'send', range = true },
  { 'answer', plug = true },
  { 'routes', plug = true },
  { 'agents', plug = true },
  { 'queue' },
  { 'next', plug = true },
  { 'log', plug = true },
  { 'load' },
  { 'save', bang = true },
  { 'host', bang = true },
}

local command = vim.api.nvim_create_user_command

command('Mado', function(opts)
  require('mado.commands').mado(opts)
end, {
  nargs = '*',
  bang = true,
  range = true,
  desc = 'Run coding agents and route their answers',
  complete = function(...)
    return require('mado.complete').mado(...)
  end,
})

for _, sub in ipairs(subcommands) do
  local name = sub[1]
  command('Mado' .. name:sub(1, 1):upper() .. name:sub(2), function(opts)
    require('mado.commands').sub(name, opts)
  end, {
    nargs = '*',
    bang = sub.bang,
    range = sub.range,
    desc = 'The same as :Mado ' .. name,
    complete = function(...)
      return require('mado.complete').sub(name, ...)
    end,
  })
  if sub.plug then
    -- <Cmd> keeps the mode, so that a pause works while the cursor is in an agent.
    local lhs = ('<Plug>(mado-%s)'):format(name)
    local opts = {
      noremap = true,
      desc = ':Mado ' .. name,
      callback = function()
        require('mado.commands').sub(name, { args = '' })
      end,
    }
    -- vim.keymap.set does the same and takes three times as long, at every start of Neovim.
    for _, mode in ipairs({ 'n', 'i', 't' }) do
      vim.api.nvim_set_keymap(mode, lhs, '', opts)
    end
  end
end

local group = vim.api.nvim_create_augroup('mado', {})

vim.api.nvim_create_autocmd('BufReadCmd', {
  group = group,
  pattern = 'mado://*',
  desc = 'mado: fill mado:// buffers',
  callback = function(args)
    require('mado.buffers').read(args.buf, args.match)
  end,
})

-- Says what already runs in this project. It waits until Neovim has started, and loads nothing where
-- no host has ever run.
local function greet()
  vim.defer_fn(function()
    if #vim.api.nvim_list_uis() > 0 then
      require('mado.greet').greet()
    end
  end, 100)
end

if vim.v.vim_did_enter == 1 then
  greet()
else
  vim.api.nvim_create_autocmd('VimEnter', { group = group, once = true, callback = greet })
end
