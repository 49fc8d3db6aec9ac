local arg0 = vim.fs.dirname(vim.uv.fs_realpath(arg[0]))
local H = dofile(arg0 .. '/harness.lua')
local test, eq, has, ok = H.test, H.eq, H.has, H.ok

local said = H.catch_messages()
local mado = require('mado')
local state = require('mado.state')
local rpc = require('mado.rpc')
local project = require('mado.project').current()
local Fake = require('fakehost')
local fake = Fake.start(project)
vim.cmd.runtime('plugin/mado.lua')

fake.agents =
  { fake:agent({ id = 1, name = 'planner' }), fake:agent({ id = 2, name = 'reviewer' }) }
fake.routes = { fake:route({ id = 7 }) }
fake.hops = {}
for id = 1, 30 do
  fake.hops[id] = fake:hop({ id = id, state = 'answered', reason_text = '' })
end

local fired = {}
vim.api.nvim_create_autocmd('User', {
  pattern = { 'MadoAgentState', 'MadoRouteHop', 'MadoRouteStopped', 'MadoHost' },
  callback = function(args)
    table.insert(fired, { args.match, args.data })
  end,
})

local function forget()
  for i = #said, 1, -1 do
    said[i] = nil
  end
  for i = #fired, 1, -1 do
    fired[i] = nil
  end
end

local function connect()
  local connected, problem
  rpc.connect(project, {}, function(p)
    connected, problem = true, p
  end)
  H.wait('the connection', function()
    return connected
  end)
  eq(nil, problem)
  H.wait('the hops', function()
    return #state.hops(project) == #fake.hops
  end)
end

---Tells an event and waits until the plugin has it.
local function emit(event, data)
  local marker =
    fake:agent({ id = 99, name = 'marker', project = '/marker', since = vim.uv.hrtime() })
  fake:emit(event, data)
  fake:emit('agent', marker)
  H.wait('the event ' .. event, function()
    local seen = state.agent_by_id(99)
    return seen and seen.since == marker.since
  end)
  H.settle()
end

test('the connection fills the cache and says so', function()
  connect()
  eq({ 'MadoHost' }, { fired[1][1] })
  eq({ 'connected', 4711, project }, { fired[1][2].state, fired[1][2].pid, fired[1][2].project })
  local hello = fake:asked('hello')[1].params
  eq(
    { 2, 'editor', '0.1.0', project },
    { hello.protocol, hello.client, hello.version, hello.project }
  )
  eq(
    { 'planner', 'reviewer' },
    vim.tbl_map(function(agent)
      return agent.name
    end, mado.agents())
  )
end)

test('the statusline is what is known, and asks nobody', function()
  fake.requests = {}
  eq('planner ✓  reviewer ✓', mado.statusline())
  emit('agent', fake:agent({ id = 2, name = 'reviewer', phase = 'busy', queue = 2 }))
  eq('planner ✓  reviewer ▶+2', mado.statusline())
  emit('route', fake:route({ id = 7, state = 'paused' }))
  eq('planner ✓  reviewer ▶+2  1 paused', mado.statusline())
  emit('route', fake:route({ id = 7 }))
  emit('agent', fake:agent({ id = 2, name = 'reviewer' }))
  eq({}, fake.requests)
end)

test('User autocommands carry what changed', function()
  forget()
  emit('agent', fake:agent({ id = 1, name = 'planner', phase = 'busy' }))
  eq({ 'MadoAgentState', 'planner', 'busy', 'idle' }, {
    fired[1][1],
    fired[1][2].name,
    fired[1][2].phase,
    fired[1][2].before,
  })
  -- The marker itself is an agent.
  forget()
  emit('agent', fake:agent({ id = 1, name = 'planner', phase = 'busy', queue = 1 }))
  eq({}, fired, 'nothing is fired while the phase stays')
  emit('hop', fake:hop({ id = 31, state = 'typing' }))
  eq({ 'MadoRouteHop', 'typing', 31 }, { fired[1][1], fired[1][2].state, fired[1][2].hop.id })
  forget()
  emit(
    'route',
    fake:route({ id = 7, state = 'stopped', reason_code = 'max_rounds', reason_text = '5 rounds' })
  )
  emit(
    'route',
    fake:route({ id = 7, state = 'stopped', reason_code = 'max_rounds', reason_text = '5 rounds' })
  )
  eq(1, #fired)
  eq({ 'MadoRouteStopped', 'planner->reviewer', 'max_rounds' }, {
    fired[1][1],
    fired[1][2].route,
    fired[1][2].reason,
  })
  emit('route', fake:route({ id = 7 }))
  emit('agent', fake:agent({ id = 1, name = 'planner' }))
end)

test('a broken User autocommand does not stop the events', function()
  local id = vim.api.nvim_create_autocmd('User', {
    pattern = 'MadoAgentState',
    command = 'call BrokenOnPurpose()',
  })
  emit('agent', fake:agent({ id = 1, name = 'planner', phase = 'busy' }))
  eq('busy', state.agent_by_id(1).phase)
  vim.api.nvim_del_autocmd(id)
  emit('agent', fake:agent({ id = 1, name = 'planner' }))
end)

local function notice(of)
  return vim.tbl_extend('force', {
    project = project,
    level = 'warn',
    code = 'asks',
    key = 'agent:1',
    text = 'planner asks for permission',
    agent = 'planner',
  }, of or {})
end

test('a notice is said once per key until what it says has changed or ended', function()
  forget()
  emit('agent', fake:agent({ id = 1, name = 'planner', phase = 'asking' }))
  emit('notice', notice())
  emit('notice', notice())
  eq(
    { 'mado: planner asks for permission' },
    vim.tbl_map(function(m)
      return m.text
    end, said)
  )
  eq({ vim.log.levels.WARN, 'mado:agent:1' }, {
    said[1].level,
    (said[1].opts.id:gsub('mado:.*\n', 'mado:')),
  })
  emit('notice', notice({ text = 'planner asks for another permission' }))
  eq(2, #said)
  emit('agent', fake:agent({ id = 1, name = 'planner', phase = 'idle' }))
  emit('notice', notice({ text = 'planner asks for another permission' }))
  eq(3, #said, 'a new dialog is news')
end)

test('a notice that is only good to know interrupts nobody', function()
  forget()
  emit(
    'notice',
    notice({ level = 'info', key = 'route:7', text = 'a newer answer replaced a waiting one' })
  )
  eq({}, said)
end)

test('a route that stops again says so again', function()
  local stopped =
    { level = 'warn', key = 'route:7', text = 'planner → reviewer stopped', agent = vim.NIL }
  forget()
  for _ = 1, 2 do
    emit('route', fake:route({ id = 7, state = 'stopped' }))
    emit('notice', notice(stopped))
    emit('notice', notice(stopped))
    emit('route', fake:route({ id = 7 }))
  end
  eq(2, #said)
end)

test('notices can be switched off', function()
  ok(mado.setup({ notify = false }))
  forget()
  emit('notice', notice({ key = 'other', text = 'quiet' }))
  eq({}, said)
  ok(mado.setup({}))
end)

test('a background message never fills more than the line', function()
  local shown
  local catch = vim.notify
  -- Neovim's own, as far as the plugin can tell.
  rawset(vim, 'notify', loadstring('return function(text) SHOWN = text end', '@vim/_editor.lua')())
  require('mado.notify').background(('long '):rep(200) .. '\nand two lines')
  shown = _G.SHOWN
  rawset(vim, 'notify', catch)
  ok(vim.fn.strdisplaywidth(shown) <= vim.v.echospace, shown)
  ok(not shown:find('\n'), 'one line')
  ok(vim.endswith(shown, '…'))
end)

---Everything that a background event must leave alone.
local function place()
  local mode = vim.api.nvim_get_mode().mode
  local views = {}
  for _, win in ipairs(vim.api.nvim_list_wins()) do
    views[win] = {
      view = vim.api.nvim_win_call(win, vim.fn.winsaveview),
      buf = vim.api.nvim_win_get_buf(win),
      width = vim.api.nvim_win_get_width(win),
      height = vim.api.nvim_win_get_height(win),
    }
  end
  return { win = vim.api.nvim_get_current_win(), mode = mode, views = views }
end

local function entries()
  return vim.fn.getqflist({ title = 0, items = 0, idx = 0, size = 0, context = 0 })
end

test('the log is a quickfix list of its own and follows the hops', function()
  vim.fn.setqflist({}, ' ', { title = 'mine', items = { { text = 'untouched' } } })
  vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.fn['repeat']({ 'text' }, 100))
  local editing = vim.api.nvim_get_current_win()
  vim.cmd('Mado log')
  H.wait('the log', function()
    return vim.bo.buftype == 'quickfix'
  end)
  eq('mado log', entries().title)
  eq(31, entries().size)
  has(vim.api.nvim_buf_get_lines(0, 30, 31, false)[1], '#31  planner → reviewer  typing')
  eq(31, vim.api.nvim_win_get_cursor(0)[1], 'the newest entry is under the cursor')
  -- The reader goes back to an old entry and then to the text.
  vim.cmd('12cc')
  vim.cmd('wincmd p')
  local quickfix = vim.fn.getqflist({ winid = 0 }).winid
  vim.api.nvim_win_set_cursor(quickfix, { 5, 3 })
  vim.api.nvim_set_current_win(editing)
  vim.cmd('enew!')
  vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.fn['repeat']({ 'text' }, 100))
  vim.cmd('normal! 60Gztl')
  local before = place()
  emit('hop', fake:hop({ id = 31, state = 'answered', reason_text = '' }))
  for id = 32, 40 do
    emit('hop', fake:hop({ id = id }))
  end
  eq(40, entries().size)
  eq(before, place(), 'cursor, focus, mode, views and sizes')
  eq(12, entries().idx, 'the current entry stays')
end)

test('the log leaves other lists alone, and is found again among them', function()
  vim.fn.setqflist({}, ' ', { title = 'grep', items = { { text = 'found' } } })
  emit('hop', fake:hop({ id = 41 }))
  eq('grep', entries().title)
  eq(1, entries().size)
  vim.cmd('Mado log')
  H.wait('the log', function()
    return entries().title == 'mado log'
  end)
  eq(41, entries().size)
  eq('log', entries().context.mado)
end)

test('the log of a route holds its hops alone', function()
  emit('hop', fake:hop({ id = 42, source = 'reviewer', target = 'planner', route = 8 }))
  vim.cmd('Mado log reviewer->planner')
  H.wait('the log', function()
    return entries().title == 'mado log reviewer->planner'
  end)
  eq(1, entries().size)
  vim.cmd('cclose')
end)

test('an entry opens its hop: parameters and results apart, following the hop', function()
  vim.cmd('only!')
  emit(
    'hop',
    fake:hop({
      id = 42,
      state = 'submitted',
      answer = 'the plan',
      prompt = 'Review:\n```\nthe plan\n```',
      notes = { 'removed 1 control byte' },
      times = { fired = 1700000000000, submitted = 1700000000700 },
    })
  )
  vim.cmd('edit mado://hop/42')
  local lines = vim.api.nvim_buf_get_lines(0, 0, -1, false)
  local text = table.concat(lines, '\n')
  eq('# Hop 42: planner → reviewer, submitted', lines[1])
  local decided, came_out = text:find('## Decided', 1, true), text:find('## Came out', 1, true)
  ok(decided < came_out)
  ok(text:find('Review:', 1, true) < came_out, 'the prompt is a parameter')
  ok(text:find('removed 1 control byte', 1, true) > came_out, 'a note is a result')
  has(text, '````text\nReview:')
  has(text, '(+700 ms)')
  eq({ 'markdown', 'nofile', false, false }, {
    vim.bo.filetype,
    vim.bo.buftype,
    vim.bo.modifiable,
    vim.bo.modified,
  })
  vim.cmd('normal! 5Gl')
  vim.cmd('split')
  vim.cmd('enew')
  local before = place()
  emit('hop', fake:hop({ id = 42, state = 'answered', reason_text = '' }))
  eq(
    '# Hop 42: planner → reviewer, answered',
    vim.fn.getbufline(vim.fn.bufnr('mado://hop/42'), 1)[1]
  )
  eq(before, place())
end)

test('a hop that is not known is asked for', function()
  fake.on.hops = function(params)
    return { kind = 'hops', value = { fake:hop({ id = params.hop, state = 'failed' }) } }
  end
  vim.cmd('only!')
  vim.cmd('edit mado://hop/777')
  H.wait('the hop', function()
    return vim.api.nvim_buf_get_lines(0, 0, 1, false)[1]
      == '# Hop 777: planner → reviewer, failed'
  end)
  fake.on.hops = nil
  vim.cmd('edit mado://nothing/here')
  has(said[#said].text, 'expected mado://hop/{id}')
end)

test('an answer is a markdown buffer and a register', function()
  fake.on.answer = function(params)
    return {
      kind = 'answer',
      value = { agent = params.agent, text = '# Plan\nsteps', rung = 'record' },
    }
  end
  vim.cmd('Mado answer planner')
  H.wait('the answer', function()
    return vim.api.nvim_buf_get_name(0) == 'mado://answer/planner'
  end)
  eq({ '# Plan', 'steps' }, vim.api.nvim_buf_get_lines(0, 0, -1, false))
  eq('# Plan\nsteps', vim.fn.getreg('"'))
  eq('markdown', vim.bo.filetype)
end)

test('a hop that waits for a yes says so once', function()
  forget()
  local waits = { id = 90, reason_code = 'confirm', reason_text = 'waits for your yes' }
  emit('hop', fake:hop({ id = 90 }))
  emit('hop', fake:hop(waits))
  emit('hop', fake:hop(waits))
  emit('hop', fake:hop({ id = 90 }))
  emit('hop', fake:hop(waits))
  eq(1, #said)
  eq('mado: hop 90, planner → reviewer, waits for your yes; :Mado preview hop=90', said[1].text)
  emit('hop', fake:hop({ id = 90, state = 'typing' }))
  eq(1, #said)
end)

test('null means absent, and what is not understood is no error', function()
  fake:emit('hop', fake:hop({ id = 50, route = vim.NIL }))
  emit('invented', { x = 1 })
  eq(nil, state.hop_by_id(50).route)
  rpc.on('nonsense')
  rpc.on({ { type = 'reply', seq = 12345 }, { type = 'what' }, {} })
  H.settle()
  eq({}, fake.errors)
end)

local function exited(of)
  return notice(vim.tbl_extend('force', {
    code = 'exited',
    text = 'planner ended with exit code 129; :Mado restart planner starts it again',
  }, of or {}))
end

test('the end of an agent is said after a moment, unless it was started again', function()
  forget()
  emit('agent', fake:agent({ id = 1, name = 'planner', phase = 'exited' }))
  emit('notice', exited())
  eq({}, said)
  H.wait('the notice', function()
    return #said > 0
  end)
  eq('mado: ' .. exited().text, said[1].text)
  forget()
  emit('agent', fake:agent({ id = 1, name = 'planner' }))
  emit('agent', fake:agent({ id = 1, name = 'planner', phase = 'exited' }))
  emit('notice', exited())
  emit('agent', fake:agent({ id = 1, name = 'planner', phase = 'starting' }))
  -- Longer than a notice is held.
  vim.wait(1700)
  eq({}, said)
  emit('agent', fake:agent({ id = 1, name = 'planner' }))
end)

test('the death of the host is said once, with what ended with it', function()
  forget()
  fake:die()
  H.wait('the loss', function()
    return #said > 0
  end)
  H.settle()
  eq(1, #said)
  eq(
    'mado: the host (pid 4711) has ended, and with it planner, reviewer (:Mado open starts a new one)',
    said[1].text
  )
  eq({}, mado.agents())
  eq('', mado.statusline())
  eq('gone', fired[#fired][2].state)
end)

test('the next host is found without a command, and what it holds back is said', function()
  fake = Fake.start(project)
  fake.agents = { fake:agent({ id = 1, name = 'planner' }) }
  fake.hops = { fake:hop({ id = 60, state = 'held' }) }
  forget()
  H.wait('the connection', function()
    return #said > 0
  end)
  eq('mado: hop 60 is held, :Mado resume hop=60 goes on with it', said[1].text)
  eq('planner ✓', mado.statusline())
  rpc.disconnect()
  fake:die()
end)

test('a host that is stopped is one message, and none of its agents has another', function()
  fake = Fake.start(project)
  fake.agents =
    { fake:agent({ id = 1, name = 'planner' }), fake:agent({ id = 2, name = 'reviewer' }) }
  connect()
  forget()
  for id, name in ipairs({ 'planner', 'reviewer' }) do
    emit('agent', fake:agent({ id = id, name = name, phase = 'exited' }))
    emit('notice', exited({ key = 'agent:' .. id, text = name .. ' ended' }))
  end
  emit('notice', exited({ key = 'hop:9', code = 'target_exited', text = 'hop 9 failed' }))
  fake:die()
  H.wait('the loss', function()
    return #said > 0
  end)
  vim.wait(1700)
  eq(1, #said)
  eq(
    'mado: the host (pid 4711) has ended, and with it planner, reviewer (:Mado open starts a new one)',
    said[1].text
  )
end)

test('a request that the host left unanswered ends as an error', function()
  fake = Fake.start(project)
  fake.agents = { fake:agent({ id = 1, name = 'planner' }) }
  fake.on.pause = function() end
  local value, problem
  ok(mado.pause(nil, function(v, p)
    value, problem = v, p
  end))
  H.wait('the request', function()
    return #fake:asked('pause') == 1
  end)
  fake:die()
  H.wait('the error', function()
    return problem ~= nil
  end)
  eq({ nil, 'host_gone' }, { value, problem.code })
end)

test('after the death of a host the next command finds the next one', function()
  fake = Fake.start(project)
  fake.agents = { fake:agent({ id = 5, name = 'again' }) }
  local value
  ok(mado.agents(nil, function(v)
    value = v
  end) == true)
  H.wait('the answer', function()
    return value ~= nil
  end)
  eq('again', value[1].name)
  rpc.disconnect()
  fake:die()
end)

test('a host of another protocol is told apart once, with what runs and what to do', function()
  fake = Fake.start(project)
  fake.protocol = 3
  forget()
  vim.env.MADO_BIN = '/bin/true'
  vim.cmd('Mado agents')
  H.wait('the message', function()
    return #said > 0
  end)
  has(said[1].text, 'the running host (version 0.1.0, pid 4711) speaks protocol 3')
  has(said[1].text, 'program /bin/true) speaks 2; its agents stay alive')
  has(said[1].text, ':Mado host restart')
  vim.cmd('Mado routes')
  H.wait('the second hello', function()
    return #fake:asked('hello') == 2
  end)
  H.settle()
  eq(1, #said)
  fake:die()
end)

test('a host that does not answer is given up', function()
  fake = Fake.start(project)
  fake.on.hello = function() end
  local problem
  mado.agents(nil, function(_, p)
    problem = p
  end)
  H.wait('the time limit', function()
    return problem ~= nil
  end)
  eq('host_silent', problem.code)
  fake:die()
end)

H.run()
