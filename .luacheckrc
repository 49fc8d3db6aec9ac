-- Neovim's LuaJIT; `vim` is its only global, of which these fields are written.
std = 'luajit'
read_globals = { 'vim' }
globals = {
  'vim.b',
  'vim.bo',
  'vim.env',
  'vim.g',
  'vim.go',
  'vim.o',
  'vim.opt',
  'vim.opt_local',
  'vim.w',
  'vim.wo',
}
max_line_length = 120
-- A callback's signature is given by its caller.
unused_args = false
