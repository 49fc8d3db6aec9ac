local arg0 = vim.fs.dirname(vim.uv.fs_realpath(arg[0]))
local H = dofile(arg0 .. '/harness.lua')
local test, eq, has, ok = H.test, H.eq, H.has, H.ok

local said = H.catch_messages()
local project = require('mado.project').current()
local fake = require('fakehost').start(project)
vim.cmd.runtime('plugin/mado.lua')
local adopt = require('mado.adopt')
vim.env.MADO_BIN = vim.v.progpath

-- A terminal whose program shows what it gets, byte for byte.
local function terminal(script)
  vim.cmd.enew()
  local buf = vim.api.nvim_get_current_buf()
  vim.fn.jobstart({ 'sh', '-c', script or 'stty raw -echo; cat -v' }, { term = true })
  return buf
end

-- The host's answer to a request to adopt.
local function answers()
  fake.on.adopt = function(params)
    return {
      kind = 'agent',
      value = fake:agent({
        id = 1,
        name = params.name or 'a',
        pid = params.terminal.pid,
        adopted = 'nvim',
        place = 'buffer ' .. params.terminal.buffer,
      }),
    }
  end
end

local function adopted(script)
  answers()
  local buf, info = terminal(script), nil
  ok(adopt.adopt({ name = 'a' }, function(value)
    info = value
  end))
  H.wait('the answer', function()
    return info ~= nil
  end)
  return buf
end

-- What the host was told of what it asked.
local function done(ask)
  local found
  H.wait('the end of ' .. ask, function()
    for _, request in ipairs(fake:asked('adopted')) do
      if request.params.done and request.params.done.ask == ask then
        found = request.params.done
      end
    end
    return found
  end)
  return found
end

local next_ask = 100
local function ask(method, buf, argument)
  next_ask = next_ask + 1
  adopt[method](buf, next_ask, argument)
  return done(next_ask)
end

local function permit()
  local path = vim.fn.tempname()
  vim.fn.writefile({}, path)
  return path
end

local function order(more)
  return vim.tbl_extend(
    'force',
    { text = 'x', paste = false, permit = permit(), keys = 0 },
    more or {}
  )
end

local function text(buf)
  return table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), '\n')
end

local function shows(buf, what)
  H.wait('the terminal to show ' .. what, function()
    return text(buf):find(what, 1, true) ~= nil
  end)
end

test(
  'a request names the buffer, its program and its terminal, and the buffer is marked',
  function()
    local buf = adopted()
    local params = fake:asked('adopt')[1].params
    eq('nvim', params.terminal.kind)
    eq(buf, params.terminal.buffer)
    eq(vim.b[buf].terminal_job_pid, params.terminal.pid)
    ok(vim.startswith(params.terminal.tty, '/dev/'), params.terminal.tty)
    eq('a', vim.b[buf].mado_agent)
    eq(1, vim.b[buf].mado_agent_id)
    adopt.gone(1)
    eq(nil, vim.b[buf].mado_agent)
  end
)

test('a look tells the lines once they stand', function()
  local buf = adopted('printf "one\\ntwo"; sleep 600')
  shows(buf, 'two')
  local look = ask('look', buf, 7)
  eq('looked', look.said)
  eq(true, look.look.settled)
  eq({ 'one', 'two' }, { look.look.lines[1], look.look.lines[2] })
  adopt.gone(1)
end)

test('a write needs its permit, and uses it up', function()
  local buf = adopted()
  ask('look', buf, 7)
  local o = order({ text = 'revoked' })
  vim.uv.fs_unlink(o.permit)
  eq('revoked', ask('write', buf, o).said)
  o = order({ text = 'granted' })
  eq('written', ask('write', buf, o).said)
  eq(nil, vim.uv.fs_stat(o.permit))
  shows(buf, 'granted')
  eq(nil, text(buf):find('revoked', 1, true))
  adopt.gone(1)
end)

test(
  'a write on a look is refused when the screen is another one, or the look is not the last',
  function()
    local buf = adopted()
    ask('look', buf, 7)
    vim.fn.chansend(vim.bo[buf].channel, 'drawn meanwhile')
    shows(buf, 'drawn meanwhile')
    local o = order({ guard = 7 })
    eq('changed', ask('write', buf, o).said)
    ok(vim.uv.fs_stat(o.permit), 'the permit is unused')
    ask('look', buf, 8)
    eq('changed', ask('write', buf, order({ guard = 7 })).said)
    eq('written', ask('write', buf, order({ guard = 8, text = '!' })).said)
    shows(buf, 'drawn meanwhile!')
    adopt.gone(1)
  end
)

test(
  'a terminal that never stands is said to be unsettled, and no guarded write goes in',
  function()
    local buf = adopted('while :; do printf x; done')
    shows(buf, 'xx')
    eq(false, ask('look', buf, 7).look.settled)
    eq('changed', ask('write', buf, order({ guard = 7 })).said)
    adopt.gone(1)
  end
)

test(
  'a paste has its marks where the program wants them, keeps tabs, and leaves the options alone',
  function()
    local filter = vim.go.termpastefilter
    local buf = adopted('stty raw -echo; printf "\\033[?2004h"; cat -v')
    ask('look', buf, 7)
    eq('written', ask('write', buf, order({ paste = true, text = 'a\tb\nc' })).said)
    shows(buf, '^[[201~')
    -- `cat` lets a tab be one, and a newline.
    ok(text(buf):match('%^%[%[200~a +b\n +c%^%[%[201~'), text(buf))
    eq(filter, vim.go.termpastefilter)
    eq('', vim.go.eventignore)
    adopt.gone(1)
  end
)

test('what was pasted by a person counts as typed, and outdates a write', function()
  local buf = adopted()
  ask('look', buf, 7)
  vim.api.nvim_paste('by a person', true, -1)
  H.wait('it to be told', function()
    for _, request in ipairs(fake:asked('adopted')) do
      if request.params.typed then
        eq({ humans = 1, chars = 11, submits = false, rest = true }, request.params.typed)
        return true
      end
    end
  end)
  eq('human', ask('write', buf, order({ keys = 0 })).said)
  eq('written', ask('write', buf, order({ keys = 1 })).said)
  adopt.gone(1)
end)

test('vim.paste and the keys are watched only as long as something is adopted', function()
  local before = vim.paste
  local buf = adopted()
  ok(vim.paste ~= before, 'watched')
  adopt.gone(1)
  eq(before, vim.paste)
  eq(nil, adopt.buffer_of(1))
  ok(vim.api.nvim_buf_is_valid(buf))
end)

test('a buffer that is wiped is told with that reason, and refused to who comes late', function()
  local buf = adopted()
  fake.requests = {}
  vim.api.nvim_buf_delete(buf, { force = true })
  H.wait('the reason', function()
    for _, request in ipairs(fake:asked('adopted')) do
      if request.params.gone then
        has(request.params.gone, 'its buffer was closed')
        return true
      end
    end
  end)
  eq(nil, adopt.buffer_of(1))
end)

test('an agent that is adopted elsewhere is not shown here, and that is said', function()
  local info = fake:agent({ id = 9, name = 'far', adopted = 'tmux', place = 'tmux pane %3' })
  has(
    tostring(require('mado.window').show(info, {})),
    'far was adopted and is shown only where it is: tmux pane %3'
  )
  eq(0, #said)
end)

H.run()
