-- A shadow hop: what went out beside what would have gone out.

local H = dofile(vim.fs.joinpath(vim.fs.dirname(vim.uv.fs_realpath(arg[0])), 'harness.lua'))
local test, eq, ok, has = H.test, H.eq, H.ok, H.has

local said = H.catch_messages()
local hop = require('mado.hop')
local state = require('mado.state')

local function shadow_hop(of)
  return vim.tbl_extend('force', {
    id = 7,
    route = 1,
    chain = 1,
    depth = 0,
    source = 'a',
    target = 'b',
    project = '/p',
    state = 'answered',
    reason_code = '',
    reason_text = '',
    rung = 'screen',
    how = 'on-idle, prompt-wrap',
    round = 1,
    times = {},
    prompt = 'one\ntwo (folded)\nthree',
    shadow = { at = 1, rung = 'hook', turn = 't1', answer = 'x', prompt = 'one\ntwo\nthree' },
    steps = {
      { at = 100, kind = 'evidence', text = 'the screen of a' },
      { at = 130, kind = 'look', text = 'before Enter: all is well' },
    },
  }, of or {})
end

test('a shadow hop tells both texts apart', function()
  local text = table.concat(hop.lines(shadow_hop()), '\n')
  has(text, '## Shadow (what madoagent would have delivered)')
  has(text, '- evidence: hook')
  has(text, '-two (folded)\n+two')
  has(text, '`     +30 ms` look: before Enter: all is well')
  text = table.concat(
    hop.lines(shadow_hop({ shadow = { at = 1, rung = 'hook', answer = '', prompt = '' } })),
    '\n'
  )
  has(text, 'it would have delivered nothing')
  local same = { at = 1, rung = 'hook', answer = '', prompt = 'one\ntwo (folded)\nthree' }
  text = table.concat(hop.lines(shadow_hop({ shadow = same })), '\n')
  has(text, '- the same text')
  ok(not text:find('Difference', 1, true))
end)

test('d shows them side by side, and q closes both', function()
  state.hop(shadow_hop())
  vim.cmd.runtime('plugin/mado.lua')
  vim.cmd.edit('mado://hop/7')
  local tab = vim.api.nvim_get_current_tabpage()
  vim.api.nvim_feedkeys('d', 'xm', false)
  local wins = vim.api.nvim_tabpage_list_wins(0)
  eq(2, #wins)
  local texts = {}
  for i, win in ipairs(wins) do
    ok(vim.wo[win].diff)
    texts[i] =
      table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 0, -1, false), '\n')
  end
  eq({ 'one\ntwo (folded)\nthree', 'one\ntwo\nthree' }, texts)
  vim.api.nvim_feedkeys('q', 'xm', false)
  eq(tab, vim.api.nvim_get_current_tabpage())
  eq(1, #vim.api.nvim_list_tabpages())
end)

test('a hop without a shadow says so', function()
  state.hop(shadow_hop({ id = 8, shadow = vim.NIL }))
  state.hop_by_id(8).shadow = nil
  vim.cmd.edit('mado://hop/8')
  vim.api.nvim_feedkeys('d', 'xm', false)
  has(said[#said].text, 'hop 8 has no shadow')
end)

H.run()
