-- Previews: what writing, closing and leaving one means, against a host that is played here.

local H = dofile(vim.fs.joinpath(vim.fs.dirname(vim.uv.fs_realpath(arg[0])), 'harness.lua'))
local test, eq, ok, has, wait = H.test, H.eq, H.ok, H.has, H.wait

local project = vim.fn.tempname()
vim.fn.mkdir(project .. '/.git', 'p')
vim.cmd.cd(project)
project = vim.uv.fs_realpath(project)
local fake = require('fakehost').start(project)
fake.agents =
  { fake:agent({ id = 1, name = 'planner' }), fake:agent({ id = 2, name = 'reviewer' }) }
fake.routes = { fake:route() }
local said = H.catch_messages()
vim.cmd.runtime('plugin/mado.lua')
local state = require('mado.state')

local function forget()
  fake.requests, fake.on = {}, {}
  for i = #said, 1, -1 do
    said[i] = nil
  end
end

local next_id = 10

-- A hop that waits for a yes, told to the editor.
local function waiting(of)
  next_id = next_id + 1
  local hop = fake:hop(vim.tbl_extend('force', {
    id = next_id,
    reason_code = 'confirm',
    reason_text = 'waits for your yes',
    prompt = 'look at\nthis %d 50%',
  }, of or {}))
  fake.hops = { hop }
  if #fake.clients > 0 then
    fake:emit('hop', hop)
    wait('the hop is known', function()
      return state.hop_by_id(hop.id) ~= nil
    end)
  end
  return hop
end

local function preview(id)
  vim.cmd('Mado preview hop=' .. id)
  wait('the preview is shown', function()
    return vim.b.mado_hop_preview == id
  end)
  return vim.api.nvim_get_current_buf()
end

local function gone(buf)
  wait('the preview is put away', function()
    return not vim.api.nvim_buf_is_valid(buf)
  end)
end

local function decide(hop, state_now, code)
  hop.state, hop.reason_code = state_now, code
  fake:emit('hop', hop)
  wait('the end of the hop is known', function()
    return state.hop_by_id(hop.id).state == state_now
  end)
  -- What a test has set going is not the next one's.
  H.settle()
end

require('mado').agents({}, function() end)
wait('the connection stands', function()
  return #state.agents(project) == 2 and #fake.clients > 0
end)

test('writing sends what is written, and the preview goes', function()
  forget()
  local before = vim.api.nvim_get_current_win()
  local hop = waiting()
  local buf = preview(hop.id)
  eq({ 'look at', 'this %d 50%' }, vim.api.nvim_buf_get_lines(buf, 0, -1, false))
  has(vim.wo.winbar, ':w sends it')
  fake.on.approve = function()
    return { kind = 'said', value = 'hop 11 goes on' }
  end
  vim.api.nvim_buf_set_lines(buf, 0, 1, false, { 'my own' })
  vim.cmd.write()
  gone(buf)
  local asked = fake:asked('approve')
  eq(1, #asked)
  eq(hop.id, asked[1].params.hop)
  eq('my own\nthis %d 50%', asked[1].params.prompt)
  eq(0, #fake:asked('drop'))
  eq(before, vim.api.nvim_get_current_win())
  has(said[#said].text, 'goes on')
  decide(hop, 'answered', 'answered')
end)

test('write and quit closes the preview and no other window', function()
  forget()
  local hop = waiting()
  local wins = #vim.api.nvim_list_wins()
  local buf = preview(hop.id)
  eq(wins + 1, #vim.api.nvim_list_wins())
  fake.on.approve = function()
    return { kind = 'said', value = 'goes on' }
  end
  vim.cmd('wq')
  eq(wins, #vim.api.nvim_list_wins())
  wait('the yes', function()
    return #fake:asked('approve') == 1
  end)
  gone(buf)
  H.settle()
  eq(wins, #vim.api.nvim_list_wins())
  eq(0, #fake:asked('drop'))
  decide(hop, 'answered', 'answered')
end)

test('closing without writing drops the hop', function()
  forget()
  local hop = waiting()
  local buf = preview(hop.id)
  fake.on.drop = function()
    return { kind = 'said', value = 'hop was dropped' }
  end
  vim.cmd.close()
  wait('the no', function()
    return #fake:asked('drop') == 1
  end)
  eq(hop.id, fake:asked('drop')[1].params.hop)
  eq(0, #fake:asked('approve'))
  ok(not vim.api.nvim_buf_is_valid(buf))
  decide(hop, 'stopped', 'dropped')
end)

test('a changed prompt is not closed by mistake', function()
  forget()
  local hop = waiting()
  local buf = preview(hop.id)
  vim.api.nvim_buf_set_lines(buf, 0, 1, false, { 'changed' })
  local closed, why = pcall(vim.cmd.quit)
  ok(not closed)
  has(why, 'E37')
  H.settle()
  eq(0, #fake:asked('drop'))
  fake.on.drop = function()
    return { kind = 'said', value = 'dropped' }
  end
  vim.cmd('quit!')
  wait('the no', function()
    return #fake:asked('drop') == 1
  end)
  decide(hop, 'stopped', 'dropped')
end)

test('an empty prompt is not sent', function()
  forget()
  local hop = waiting()
  local buf = preview(hop.id)
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, { '  ' })
  vim.cmd.write()
  H.settle()
  eq(0, #fake:asked('approve'))
  has(said[#said].text, 'there is no text to send')
  vim.cmd('quit!')
  decide(hop, 'stopped', 'dropped')
end)

test('a text that the host refuses is not lost', function()
  forget()
  local hop = waiting()
  local buf = preview(hop.id)
  fake.on.approve = function()
    return nil, { code = 'store', message = 'the disk is full', remedy = 'make room' }
  end
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, { 'a long text of mine' })
  vim.cmd.write()
  wait('the refusal', function()
    return #said > 0 and said[#said].text:find('the disk is full', 1, true) ~= nil
  end)
  ok(vim.api.nvim_buf_is_valid(buf))
  eq({ 'a long text of mine' }, vim.api.nvim_buf_get_lines(buf, 0, -1, false))
  ok(vim.bo[buf].modified)
  -- The same when its window was closed with it.
  vim.cmd('wq')
  wait('the second refusal', function()
    return #fake:asked('approve') == 2
  end)
  H.settle()
  eq(0, #fake:asked('drop'))
  fake.on = {}
  buf = preview(hop.id)
  eq({ 'a long text of mine' }, vim.api.nvim_buf_get_lines(buf, 0, -1, false))
  vim.cmd('quit!')
  decide(hop, 'stopped', 'dropped')
end)

test('one that is decided elsewhere says so and sends nothing', function()
  forget()
  local hop = waiting()
  local buf = preview(hop.id)
  hop.reason_text = 'a person dropped it'
  decide(hop, 'stopped', 'dropped')
  gone(buf)
  eq(0, #fake:asked('drop') + #fake:asked('approve'))
end)

test('previewing a route fires it with a question, and one that waits is shown instead', function()
  forget()
  local hop = waiting({ id = 90 })
  decide(hop, 'stopped', 'dropped')
  fake.on.fire = function(params)
    eq({ '1', true }, { params.route, params.confirm })
    return { kind = 'hop', value = fake:hop({ id = 91, reason_code = 'confirm', prompt = 'made' }) }
  end
  vim.cmd('Mado preview 1')
  wait('the preview', function()
    return vim.b.mado_hop_preview == 91
  end)
  eq({ 'made' }, vim.api.nvim_buf_get_lines(0, 0, -1, false))
  vim.cmd.wincmd('p')
  vim.cmd('Mado preview planner->reviewer')
  H.settle()
  eq(91, vim.b.mado_hop_preview)
  eq(1, #fake:asked('fire'))
  fake.on.drop = function()
    return { kind = 'said', value = 'dropped' }
  end
  vim.cmd('quit!')
  wait('the no', function()
    return #fake:asked('drop') == 1
  end)
end)

test('what waits for no yes has no preview', function()
  forget()
  vim.cmd('Mado preview hop=4')
  wait('the error', function()
    return #said > 0
  end)
  has(said[1].text, 'hop 4 waits for no yes')
  forget()
  vim.cmd('Mado drop')
  has(said[1].text, 'drop needs the number of a hop')
  forget()
  vim.cmd('Mado drop x')
  has(said[1].text, 'hop must be a whole number')
end)

test('leaving Neovim with a preview is no answer', function()
  forget()
  local hop = waiting()
  local child = H.child()
  child.lua('vim.cmd.runtime("plugin/mado.lua")')
  child.lua('require("mado").agents({}, function() end)')
  child.wait('require("mado.state").hop_by_id(' .. hop.id .. ') ~= nil')
  child.lua('require("mado").preview({ hop = ' .. hop.id .. ' })')
  child.wait('vim.b.mado_hop_preview == ' .. hop.id)
  -- What is asked on the way out may not reach the host any more, but it must not be asked.
  local file = vim.fn.tempname()
  child.lua('FILE = ...', file)
  child.lua([[require('mado.rpc').call = function(_, method)
    vim.fn.writefile({ method }, FILE, 'a')
  end]])
  child.lua([[vim.api.nvim_create_autocmd('VimLeave', { callback = function()
    vim.fn.writefile({ 'left' }, FILE, 'a')
  end })]])
  child.keys('<Esc>:qa!<CR>')
  vim.fn.jobwait({ child.chan }, 5000)
  eq({ 'left' }, vim.fn.readfile(file))
end)

H.run()
