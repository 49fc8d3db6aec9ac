local arg0 = vim.fs.dirname(vim.uv.fs_realpath(arg[0]))
local H = dofile(arg0 .. '/harness.lua')
local test, eq, has, ok = H.test, H.eq, H.has, H.ok

local said = H.catch_messages()
local mado = require('mado')
local state = require('mado.state')
local window = require('mado.window')
local project = require('mado.project').current()
local Fake = require('fakehost')
local fake = Fake.start(project)
vim.cmd.runtime('plugin/mado.lua')

-- The program, as far as a view needs it: it shows the arguments and stays until it is told to end.
local program = fake.dir .. '/mado'
vim.fn.writefile({
  '#!/bin/sh',
  'if [ "$1" = serve ]; then echo "mado: $SERVE_SAYS" >&2; exit 1; fi',
  'echo "view: $*"',
  'exec cat',
}, program)
vim.uv.fs_chmod(program, 493)
vim.env.MADO_BIN = program

local function forget()
  for i = #said, 1, -1 do
    said[i] = nil
  end
end

local next_id = 0
fake.on.open = function(params)
  next_id = next_id + 1
  local info = fake:agent({
    id = next_id,
    name = params.name or params.profile,
    phase = 'starting',
    project = params.project,
  })
  table.insert(fake.agents, info)
  return { kind = 'agent', value = info }
end

-- What a terminal shows, its wrapped lines made one.
local function screen(buf)
  return table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false))
end

---Opens an agent and waits until its view shows something.
local function open(opts)
  local value, problem
  local under_way, at_once = mado.open(opts, function(v, p)
    value, problem = v or false, p
  end)
  eq(nil, at_once)
  eq(true, under_way)
  H.wait('the agent', function()
    return value ~= nil
  end)
  eq(nil, problem)
  local buf = vim.fn.bufnr('^mado://agent/' .. value.name .. '$')
  H.wait('the view of ' .. value.name, function()
    return screen(buf):find('view:', 1, true)
  end)
  return value, buf
end

local function windows()
  return vim.tbl_map(function(win)
    return vim.fs.basename(vim.api.nvim_buf_get_name(vim.api.nvim_win_get_buf(win)))
  end, vim.api.nvim_tabpage_list_wins(0))
end

test('open makes the split at once and shows the agent in it', function()
  local value
  ok(mado.open({ profile = 'demo', name = 'planner', args = { '--fast' } }, function(v)
    value = v
  end))
  eq(2, #vim.api.nvim_tabpage_list_wins(0), 'the split is there before the host answers')
  local win = vim.api.nvim_get_current_win()
  H.wait('the agent', function()
    return value ~= nil
  end)
  local params = fake:asked('open')[1].params
  eq(
    { 'demo', 'planner', { '--fast' }, project },
    { params.profile, params.name, params.args, params.project }
  )
  eq(
    { vim.api.nvim_win_get_height(win), vim.api.nvim_win_get_width(win) },
    { params.rows, params.cols }
  )
  eq(vim.env.PATH, params.env.PATH)
  eq(nil, params.env.NVIM, 'what means this editor is not inherited')
  eq({ 'terminal', 'planner', 1, project }, {
    vim.bo.buftype,
    vim.b.mado_agent,
    vim.b.mado_agent_id,
    vim.b.mado_project,
  })
  eq('mado://agent/planner', vim.api.nvim_buf_get_name(0))
  ok(vim.b.terminal_job_id)
  H.wait('the view', function()
    return screen(0):find('planner', 1, true)
  end)
  has(screen(0), 'view: attach')
  eq(
    { false, false, 'no', '0' },
    { vim.wo.number, vim.wo.relativenumber, vim.wo.signcolumn, vim.wo.foldcolumn }
  )
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    ok(not vim.api.nvim_buf_get_name(buf):find('^term://'), 'no buffer of the old name is left')
  end
end)

test('the columns stay off when the buffer comes back with another way', function()
  vim.go.number = true
  vim.cmd('new')
  ok(vim.wo.number)
  vim.cmd('buffer mado://agent/planner')
  eq(false, vim.wo.number)
  vim.cmd('close')
  vim.go.number = false
end)

test('an agent that does not start leaves the layout as it was', function()
  fake.on.open, fake.kept =
    function()
      return nil, { code = 'unknown_profile', message = 'unknown profile "clod"', remedy = 'known: claude, demo' }
    end, fake.on.open
  local before, layout = vim.api.nvim_get_current_win(), vim.fn.winlayout()
  forget()
  vim.cmd('Mado open clod')
  H.wait('the error', function()
    return #said > 0
  end)
  eq('mado: unknown profile "clod" (known: claude, demo)', said[1].text)
  eq(layout, vim.fn.winlayout())
  eq(before, vim.api.nvim_get_current_win())
  fake.on.open = fake.kept
end)

test('from the log or a float, a split divides the window beside it', function()
  vim.cmd('only')
  vim.cmd('enew')
  local beside = vim.api.nvim_get_current_win()
  vim.cmd('botright copen 5')
  vim.cmd('Mado attach planner')
  H.wait('the view', function()
    return vim.b.mado_agent == 'planner'
  end)
  local layout = vim.fn.winlayout()
  eq({ 'col', 'row' }, { layout[1], layout[2][1][1] }, 'the log keeps its place below')
  eq(beside, layout[2][1][2][1][2])
  vim.cmd('Mado hide')
  vim.cmd('cclose')
  local float =
    vim.api.nvim_open_win(0, true, { relative = 'editor', row = 1, col = 1, width = 9, height = 2 })
  vim.cmd('Mado attach planner')
  H.wait('the view', function()
    return vim.b.mado_agent == 'planner'
  end)
  eq('row', vim.fn.winlayout()[1])
  vim.api.nvim_win_close(float, true)
end)

test('a split without room is an error and starts nothing', function()
  fake.requests = {}
  vim.cmd('tabnew')
  while pcall(vim.cmd.split) do
  end
  forget()
  vim.cmd('Mado open demo split=below')
  has(said[1].text, 'there is no room for a split: E36: Not enough room')
  fake.on.answer = function()
    return { kind = 'answer', value = { agent = 'planner', text = 'x', rung = 'record' } }
  end
  for _, command in ipairs({ 'answer planner', 'log' }) do
    forget()
    vim.cmd('Mado ' .. command)
    H.wait('an error of ' .. command, function()
      return #said > 0
    end)
    eq('mado: there is no room for a split: E36: Not enough room (close a window)', said[1].text)
  end
  vim.cmd('tabclose')
  H.settle()
  eq({}, fake:asked('open'))
end)

test('open can leave the focus where it is', function()
  vim.cmd('wincmd t')
  local before = vim.api.nvim_get_current_win()
  open({ profile = 'demo', name = 'reviewer', split = 'below', enter = false })
  eq(before, vim.api.nvim_get_current_win())
end)

test('connect takes the current agent and the only other visible one', function()
  fake.requests = {}
  vim.cmd('Mado focus planner')
  H.wait('the focus', function()
    return vim.b.mado_agent == 'planner'
  end)
  vim.cmd('Mado connect')
  H.wait('the request', function()
    return #fake:asked('connect') == 1
  end)
  local params = fake:asked('connect')[1].params
  eq({ 'planner', 'reviewer' }, { params.source, params.target })
  vim.cmd('MadoConnect reviewer trigger=on-turn')
  H.wait('the request', function()
    return #fake:asked('connect') == 2
  end)
  params = fake:asked('connect')[2].params
  eq({ 'planner', 'reviewer', 'on-turn' }, { params.source, params.target, params.options.trigger })
end)

test('attach of an agent that is shown jumps, also to another tab page', function()
  local count = #vim.api.nvim_list_wins()
  vim.cmd('Mado attach reviewer')
  H.wait('the jump', function()
    return vim.b.mado_agent == 'reviewer'
  end)
  vim.cmd('tabnew')
  vim.cmd('Mado attach planner')
  H.wait('the jump', function()
    return vim.b.mado_agent == 'planner'
  end)
  eq(1, vim.fn.tabpagenr())
  eq(count + 1, #vim.api.nvim_list_wins())
  vim.cmd('tabonly')
end)

test('hide closes the window and attach shows the same view again', function()
  vim.cmd('Mado focus planner')
  H.wait('the focus', function()
    return vim.b.mado_agent == 'planner'
  end)
  local buf, job = vim.api.nvim_get_current_buf(), vim.b.terminal_job_id
  vim.cmd('Mado hide')
  eq({}, vim.fn.win_findbuf(buf))
  ok(vim.api.nvim_buf_is_valid(buf))
  vim.cmd('Mado attach planner')
  H.wait('the view', function()
    return vim.b.mado_agent == 'planner'
  end)
  eq({ buf, job }, { vim.api.nvim_get_current_buf(), vim.b.terminal_job_id })
  vim.cmd('only')
  vim.cmd('Mado hide')
  eq({ '' }, windows(), 'the last window is emptied')
  local count = #vim.fn.getbufinfo({ buflisted = 1 })
  vim.cmd('Mado attach planner')
  H.wait('the view', function()
    return vim.b.mado_agent == 'planner'
  end)
  vim.cmd('only')
  vim.cmd('Mado hide')
  eq(count, #vim.fn.getbufinfo({ buflisted = 1 }), 'by a buffer that is empty already')
  forget()
  vim.cmd('Mado hide')
  has(said[1].text, 'no window of this tab page shows an agent')
end)

test('a view that was wiped detaches; attach starts another', function()
  local buf = vim.fn.bufnr('mado://agent/planner')
  vim.cmd('bwipeout! ' .. buf)
  vim.cmd('Mado attach planner')
  H.wait('the view', function()
    return vim.b.mado_agent == 'planner' and screen(0):find('planner', 1, true)
  end)
  eq('mado://agent/planner', vim.api.nvim_buf_get_name(0))
  ok(vim.api.nvim_get_current_buf() ~= buf)
end)

test('edit mado://agent/NAME shows the agent in that window', function()
  vim.cmd('Mado hide')
  vim.cmd('only')
  vim.cmd('edit mado://agent/reviewer')
  H.wait('the view', function()
    return vim.b.mado_agent == 'reviewer'
  end)
  eq({ 'reviewer' }, windows())
  eq('terminal', vim.bo.buftype)
end)

test('a rename reaches the buffer', function()
  local info = vim.deepcopy(state.agent_named(project, 'reviewer'))
  local buf = vim.api.nvim_get_current_buf()
  info.name = 'critic'
  fake:emit('agent', info)
  H.wait('the name', function()
    return vim.b.mado_agent == 'critic'
  end)
  eq('mado://agent/critic', vim.api.nvim_buf_get_name(buf))
  eq(-1, vim.fn.bufnr('^mado://agent/reviewer$'))
end)

for _, order in ipairs({ 'the end of the view first', 'the new process first' }) do
  test('an agent that was started again is shown again in its windows, ' .. order, function()
    vim.cmd('Mado attach critic')
    H.wait('the view', function()
      return vim.b.mado_agent == 'critic'
    end)
    vim.cmd('only')
    local buf = vim.api.nvim_get_current_buf()
    vim.cmd('split')
    vim.cmd('enew')
    local win = vim.api.nvim_get_current_win()
    local info = vim.deepcopy(state.agent_named(project, 'critic'))
    info.pid = info.pid + 100
    if order == 'the new process first' then
      fake:emit('agent', info)
      H.wait('the event', function()
        return state.agent_named(project, 'critic').pid == info.pid
      end)
      eq(buf, window.visible()[1].buf)
      vim.fn.jobstop(vim.b[buf].terminal_job_id)
    else
      vim.fn.jobstop(vim.b[buf].terminal_job_id)
      H.wait('the end of the view', function()
        return window.visible()[1].job == nil
      end)
      fake:emit('agent', info)
    end
    H.wait('the new view', function()
      local view = window.visible()[1]
      return view and view.job and view.buf ~= buf
    end)
    eq(win, vim.api.nvim_get_current_win())
    eq({ '', 'critic' }, windows())
    eq(false, vim.api.nvim_buf_is_valid(buf))
  end)
end

require('restart_cases')(H, fake, project)

test('close removes the windows of the agent', function()
  vim.cmd('Mado close critic')
  H.wait('the end', function()
    return #vim.api.nvim_tabpage_list_wins(0) == 1
  end)
  eq(-1, vim.fn.bufnr('^mado://agent/critic$'))
end)

test('a quit that Neovim refuses shows the agents again', function()
  vim.cmd('only!')
  vim.cmd('Mado attach planner')
  H.wait('the view', function()
    return vim.b.mado_agent == 'planner' and #window.visible() == 1
  end)
  vim.cmd('new')
  vim.cmd('silent file ' .. fake.dir .. '/unsaved')
  vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'unsaved' })
  local quit, why = pcall(vim.cmd.qall)
  eq(false, quit)
  has(why, 'E37')
  local view
  H.wait('the new view', function()
    view = window.visible()[1]
    return view and view.job and not view.ending and screen(view.buf):find('view:', 1, true)
  end)
  eq('mado://agent/planner', vim.api.nvim_buf_get_name(view.buf))
  vim.cmd('bwipeout!')
end)

test('an agent of a later host never takes over the screen of an earlier one', function()
  vim.cmd('only!')
  vim.cmd('Mado attach planner')
  H.wait('the view', function()
    return vim.b.mado_agent == 'planner'
  end)
  local old = vim.api.nvim_get_current_buf()
  local number = vim.b.mado_agent_id
  fake:die()
  H.wait('the loss', function()
    return #mado.agents() == 0
  end)
  eq('mado://ended/planner', vim.api.nvim_buf_get_name(old))
  fake = Fake.start(project)
  fake.agents = { fake:agent({ id = number, name = 'planner' }) }
  local before = #vim.api.nvim_tabpage_list_wins(0)
  vim.cmd('Mado attach planner')
  H.wait('the view', function()
    return vim.b.mado_agent == 'planner'
  end)
  ok(vim.api.nvim_get_current_buf() ~= old)
  eq('mado://agent/planner', vim.api.nvim_buf_get_name(0))
  eq(before + 1, #vim.api.nvim_tabpage_list_wins(0))
  ok(vim.api.nvim_buf_is_valid(old), 'the last screen of the earlier one stays')
  vim.cmd('only!')
end)

test(
  'a host that does not start is told with its reason, and leaves the layout as it was',
  function()
    local kept = vim.env.MADO_STATE_DIR
    vim.env.MADO_STATE_DIR = fake.dir .. '/none'
    require('mado.rpc').disconnect()
    vim.env.SERVE_SAYS = '/s cannot be written (make it writable)'
    local layout = vim.fn.winlayout()
    forget()
    vim.cmd('Mado open demo')
    H.wait('the error', function()
      return #said > 0
    end)
    eq('mado: the host did not start: /s cannot be written (make it writable)', said[1].text)
    eq(layout, vim.fn.winlayout())
    vim.env.MADO_STATE_DIR = kept
  end
)

test('a socket that a killed host left behind does not pass for a host', function()
  fake:die()
  require('mado.rpc').disconnect()
  ok(vim.uv.fs_stat(fake.dir .. '/host.json'))
  vim.env.SERVE_SAYS = 'no room'
  forget()
  vim.cmd('Mado agents')
  H.wait('the first error', function()
    return #said > 0
  end)
  eq('mado: no host is running (:Mado open starts one)', said[1].text)
  vim.cmd('Mado open demo')
  H.wait('the second error', function()
    return #said > 1
  end)
  eq('mado: the host did not start: no room', said[2].text)
  fake:listen()
end)

test('nothing of the host reported an error', function()
  eq({}, fake.errors)
end)

-- The quitting itself is shown by real processes.
for _, command in ipairs({ 'qall', 'wqall', 'confirm qall', 'xall' }) do
  test(command .. ' quits without E948 while agents are shown', function()
    local code = [[
      arg = { [0] = %q }
      local H = dofile(%q)
      vim.cmd.runtime('plugin/mado.lua')
      local project = require('mado.project').current()
      local fake = require('fakehost').start(project)
      vim.env.MADO_BIN = %q
      fake.agents = { fake:agent({ id = 1, name = 'planner' }) }
      fake.on.hello = nil
      require('mado').attach('planner')
      H.wait('the view', function() return vim.b.mado_agent == 'planner' and vim.b.terminal_job_pid end)
      io.stdout:write('pid ', vim.b.terminal_job_pid, '\n')
      vim.cmd(%q)
      io.stdout:write('still here\n')
      vim.cmd('cquit 3')
    ]]
    local file = vim.fn.tempname() .. '.lua'
    local harness = H.root .. '/tests/nvim/harness.lua'
    vim.fn.writefile(vim.split(code:format(harness, harness, program, command), '\n'), file)
    -- Without -l, whose scripts end Neovim in another way.
    local result = vim
      .system({ vim.v.progpath, '--clean', '--headless', '-S', file }, { text = true, cwd = fake.dir })
      :wait(20000)
    local pid = result.stdout:match('pid (%d+)')
    ok(pid, result.stderr)
    eq({ 'pid ' .. pid .. '\n', '', 0 }, { result.stdout, result.stderr, result.code })
    H.wait('the end of the view', function()
      return vim.uv.kill(tonumber(pid), 0) ~= 0
    end)
  end)
end

H.run()
