local arg0 = vim.fs.dirname(vim.uv.fs_realpath(arg[0]))
local H = dofile(arg0 .. '/harness.lua')
local test, eq, has, ok = H.test, H.eq, H.has, H.ok

local said = H.catch_messages()
local state = require('mado.state')
local parse = require('mado.parse')
local project = require('mado.project').current()
local fake = require('fakehost').start(project)
vim.cmd.runtime('plugin/mado.lua')

fake.agents = {
  fake:agent({ id = 1, name = 'planner' }),
  fake:agent({ id = 2, name = 'reviewer' }),
  fake:agent({ id = 3, name = 'elsewhere', project = '/other' }),
}
fake.routes = { fake:route({ id = 7 }) }

local function run(command)
  for i = #said, 1, -1 do
    said[i] = nil
  end
  vim.cmd(command)
end

---Runs a command that asks the host, and returns what it asked.
local function asks(command, method)
  fake.requests = {}
  run(command)
  H.wait(command .. ' to ask ' .. method, function()
    return #fake:asked(method) > 0
  end)
  return fake:asked(method)[1].params
end

---Runs a command that must not reach the host, and returns what it says.
local function refused(command)
  fake.requests = {}
  run(command)
  H.wait(command .. ' to say something', function()
    return #said > 0
  end)
  eq(1, #said, command .. ' says one thing')
  eq(vim.log.levels.ERROR, said[1].level)
  for _, request in ipairs(fake.requests) do
    ok(vim.list_contains({ 'hello', 'agents', 'routes', 'hops' }, request.method), request.method)
  end
  return said[1].text
end

local function complete(line)
  return vim.fn.getcompletion(line, 'cmdline')
end

test('plugin and table hold the same subcommands, and each is a command of its own', function()
  local names = {}
  for name in pairs(vim.api.nvim_get_commands({})) do
    if name:match('^Mado%u') then
      names[#names + 1] = name:sub(5, 5):lower() .. name:sub(6)
    end
  end
  table.sort(names)
  eq(require('mado.commands').names(), names)
  for name, command in pairs(require('mado.commands').table) do
    local made = vim.api.nvim_get_commands({})['Mado' .. name:sub(1, 1):upper() .. name:sub(2)]
    eq(command.bang or false, made.bang, name .. ' and its !')
  end
end)

test('loading the plugin requires nothing', function()
  local code = [[
    vim.opt.runtimepath:prepend(%q)
    vim.cmd.runtime('plugin/mado.lua')
    for name in pairs(package.loaded) do
      if name:match('^mado') then io.stdout:write(name, '\n') end
    end
  ]]
  local file = vim.fn.tempname() .. '.lua'
  vim.fn.writefile(vim.split(code:format(H.root), '\n'), file)
  local result = vim
    .system({ vim.v.progpath, '--clean', '--headless', '-l', file }, { text = true })
    :wait()
  eq({ '', 0 }, { result.stdout, result.code })
end)

test('words may be quoted', function()
  local function texts(line)
    return vim.tbl_map(function(word)
      return word.text
    end, parse.words(line))
  end
  eq({ 'a', 'b c', 'd' }, texts([[a "b c" 'd']]))
  eq({ 'template=x y\nz' }, texts([[template="x y\nz"]]))
  eq({ 'p=\\d+' }, texts([[p='\d+']]))
  eq({ 'p=\\d' }, texts([[p="\d"]]))
  eq({ "don't", 'stop' }, texts("don't stop"))
  eq({ 'say "hi"' }, texts([["say \"hi\""]]))
  local words, problem = parse.words('a "b c')
  eq(nil, words)
  eq('unfinished quote: "b c', problem)
  eq({ 'k', 'a=b' }, { parse.words('k=a=b')[1].key, parse.words('k=a=b')[1].value })
  eq(nil, parse.words('"k=v"')[1].key)
end)

test('connect sends names and options, with both spellings and either bang', function()
  local p = asks(
    [[Mado connect planner reviewer trigger=on-turn maxRounds=3 template="Review: {output}"]],
    'connect'
  )
  eq({
    project = project,
    source = 'planner',
    target = 'reviewer',
    both = false,
    options = { trigger = 'on-turn', max_rounds = 3, template = 'Review: {output}' },
  }, p)
  for _, command in ipairs({ 'Mado connect!', 'Mado! connect', 'MadoConnect!' }) do
    eq(true, asks(command .. ' planner reviewer', 'connect').both, command)
  end
  eq(true, asks('Mado connect planner reviewer confirm=true', 'connect').options.confirm)
end)

test('a route without a target goes to the only other agent', function()
  eq('reviewer', asks('Mado connect planner', 'connect').target)
end)

test('the last words of send and trigger are taken as they stand', function()
  eq(
    'look at "this" | and  that',
    asks('Mado send reviewer look at "this" | and  that', 'send').text
  )
  eq('two\nlines', asks([[Mado send reviewer "two\nlines"]], 'send').text)
  local p = asks([[Mado trigger planner->reviewer on-keyword ^DONE: (\w+) "x"$]], 'trigger')
  eq(
    { 'planner->reviewer', 'on-keyword', [[^DONE: (\w+) "x"$]] },
    { p.route, p.trigger, p.pattern }
  )
  local config = require('mado.config')
  local a, b = { kind = 'openai', model = 'a' }, { kind = 'openai', model = 'b', headers = {} }
  config.set({ providers = { a = a, b = b }, templates = { summary = 'Be short.' } })
  p = asks('Mado connect planner reviewer transform=ai-routing', 'connect')
  b.headers = nil
  eq({ a = a, b = b }, p.providers)
  eq(nil, p.options.template)
  p = asks(
    'Mado connect planner reviewer transform=summary provider=b onError=prompt-wrap task="reviews it"',
    'connect'
  )
  eq({ b = b }, p.providers)
  eq({
    transform = 'summary',
    provider = 'b',
    on_error = 'prompt-wrap',
    task = 'reviews it',
    template = 'Be short.',
  }, p.options)
  config.set({ providers = { a = a, b = b }, provider = 'a' })
  p = asks('Mado transform 7 summary', 'transform')
  eq({ 'a', { a = a } }, { p.provider, p.providers })
  p = asks('Mado transform 7 summary provider=b In one sentence.', 'transform')
  eq({ 'b', { b = b }, 'In one sentence.' }, { p.provider, p.providers, p.template })
  eq(nil, asks('Mado connect planner reviewer', 'connect').providers)
  config.set({})
  p = asks('Mado transform 7 prompt-wrap Check {output}', 'transform')
  eq({ '7', 'prompt-wrap', 'Check {output}' }, { p.route, p.transform, p.template })
end)

test('send takes a range', function()
  vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'one', 'two', 'three' })
  eq('two\nthree', asks('2,3Mado send reviewer', 'send').text)
  eq('fix:\none', asks('1MadoSend reviewer fix:', 'send').text)
end)

test('handoff tells source, target and text apart', function()
  local p = asks('Mado handoff planner reviewer please check', 'handoff')
  eq({ 'planner', 'reviewer', 'please check' }, { p.source, p.target, p.text })
  vim.b.mado_agent, vim.b.mado_agent_id = 'planner', 1
  p = asks('Mado handoff reviewer please check', 'handoff')
  eq({ 'planner', 'reviewer', 'please check' }, { p.source, p.target, p.text })
  vim.b.mado_agent, vim.b.mado_agent_id = nil, nil
end)

test('pause without a route is for the project, with one for the route', function()
  eq({ project = project }, asks('MadoPause', 'pause'))
  eq({ project = project, route = '7' }, asks('Mado pause 7', 'pause'))
  eq({ project = project, hop = 4 }, asks('Mado resume hop=4', 'resume'))
end)

test('mistakes name the word, the closest one and what there is', function()
  has(refused('Mado conect a b'), 'unknown subcommand "conect", did you mean "connect"?')
  has(refused('Mado'), 'which subcommand?')
  has(
    refused('Mado connect planner reviewr'),
    'unknown agent "reviewr", did you mean "reviewer"? (known: planner, reviewer)'
  )
  has(
    refused('Mado connect planner reviewer tigger=always'),
    'unknown option "tigger", did you mean "trigger"?'
  )
  has(refused('Mado connect planner reviewer trigger=idle'), 'unknown trigger "idle"')
  has(
    refused('Mado connect planner reviewer max_rounds=99'),
    'max_rounds must be a whole number from 1 to 20, not "99"'
  )
  has(refused('Mado connect planner planner'), 'planner cannot be its own target')
  has(refused('Mado connect planner reviewer extra'), 'unexpected word 3 "extra"')
  has(refused('Mado trigger 7 on-trun'), 'unknown trigger "on-trun", did you mean "on-turn"?')
  has(refused('Mado send reviewer'), 'send needs a text or a range')
  has(refused('Mado close'), 'agent is missing')
  has(refused('Mado pause!'), 'pause takes no !')
  has(refused('Mado open demo split=up'), 'unknown split "up"')
  has(refused('Mado open demo cwd=/no/such/place'), 'the directory /no/such/place does not exist')
  has(refused('Mado send "reviewer'), 'unfinished quote')
  has(refused('Mado host explode'), 'unknown action of host "explode"')
  has(refused('Mado connect'), 'this window shows no agent')
end)

test('a send that fails at once is one message, with what to do', function()
  local hop = fake:hop({
    id = 70,
    source = '',
    target = 'sh',
    state = 'failed',
    reason_code = 'target_exited',
    reason_text = 'its target has ended',
  })
  hop.route = nil
  fake.on.send = function()
    fake:emit('hop', hop)
    fake:emit('notice', {
      project = project,
      level = 'error',
      code = 'target_exited',
      key = 'hop:70',
      text = 'hop 70, you → sh: its target has ended',
    })
    return { kind = 'hop', value = hop }
  end
  run('Mado send planner hi')
  -- Longer than a notice of an end is held.
  vim.wait(1700)
  eq(
    { 'mado: hop 70, you → sh: its target has ended (:Mado restart sh)' },
    vim.tbl_map(function(message)
      return message.text
    end, said)
  )
  fake.on.send = nil
end)

test('trigger and transform say what the route is now', function()
  local route = fake:route({ id = 7, trigger = 'on-keyword', pattern = '^DONE' })
  fake.on.trigger = function()
    return { kind = 'routes', value = { route } }
  end
  run('Mado trigger 7 on-keyword ^DONE')
  H.wait('what became of it', function()
    return #said > 0
  end)
  eq('mado: planner->reviewer: on-keyword "^DONE", prompt-wrap, at most 5 rounds', said[1].text)
  fake.on.trigger = nil
  route = fake:route({ id = 7, template = 'Review this plan, please:\n{output}' })
  fake.on.transform = function()
    return { kind = 'routes', value = { route } }
  end
  run('Mado transform 7 prompt-wrap "Review this plan, please:\\n{output}"')
  H.wait('what became of it', function()
    return #said > 0
  end)
  has(said[1].text, 'on-idle, prompt-wrap "Review this plan, pleas…", at most')
  fake.on.transform = nil
  local shown
  local echo = vim.api.nvim_echo
  rawset(vim.api, 'nvim_echo', function(chunks)
    shown = table.concat(vim.tbl_map(function(chunk)
      return chunk[1]
    end, chunks))
  end)
  fake.on.routes = function()
    return { kind = 'routes', value = { route } }
  end
  run('Mado routes')
  H.wait('the listing', function()
    return shown ~= nil
  end)
  rawset(vim.api, 'nvim_echo', echo)
  fake.on.routes = nil
  has(shown, 'prompt-wrap "Review this plan, pleas…"')
end)

test('conditions, several targets and joins are drawn below the routes', function()
  local route = function(id, source, target, of)
    return fake:route(
      vim.tbl_extend('force', { id = id, source = source, target = target }, of or {})
    )
  end
  local routes = {
    route(1, 'planner', 'coder'),
    route(2, 'planner', 'tester', { when = 'test|spec' }),
    route(3, 'coder', 'reviewer', { join = 'all' }),
    route(10, 'tester', 'reviewer', { join = 'all', when = 'FAIL and a very long condition' }),
    route(11, 'reviewer', 'planner'),
  }
  eq({
    'planner ─┬─ 1 ─> coder',
    '         └─ 2 when /test|spec/ ─> tester',
    'reviewer ─── 11 ─> planner',
    'coder ─ 3 ───────────────────────────────────┐',
    'tester ─ 10 when /FAIL and a very long co…/ ─┴─ all ─> reviewer',
  }, require('mado.graph').lines(routes))
  eq({}, require('mado.graph').lines({ route(1, 'a', 'b'), route(2, 'b', 'a') }))
end)

test('hops and routes have whole numbers', function()
  for _, hop in ipairs({ '1.5', '0', '-1', 'x', 'nan', 'inf', '99999999999999999999' }) do
    local text =
      'mado: hop must be a whole number from 1 on, not "%s" (usage: :Mado resume [route] [hop=N])'
    eq(text:format(hop), refused('Mado resume hop=' .. hop))
  end
  for _, command in ipairs({ 'pause 1.5', 'resume 0', 'fire -1', 'log 1.5', 'trigger 1.5 always' }) do
    has(
      refused('Mado ' .. command),
      'route must be a whole number from 1 on, or source->target, not '
    )
  end
  local value, problem = require('mado').resume({ hop = 1.5 })
  eq({ nil, 'resume: hop must be a whole number from 1 on, not 1.5' }, { value, problem.message })
end)

test('a verb that is given what it does not take returns an error', function()
  local mado = require('mado')
  fake.requests = {}
  for _, verb in ipairs(require('mado.commands').names()) do
    for _, wrong in ipairs({ true, print, { nonsense = 1 } }) do
      local value, problem = mado[verb](wrong)
      eq(nil, value, verb)
      ok(type(problem) == 'table' and problem.message ~= '', verb)
    end
  end
  for _, verb in ipairs({
    'agents',
    'connect',
    'hops',
    'next',
    'queue',
    'routes',
    'send',
    'trigger',
  }) do
    for _, wrong in ipairs({ 5, 'x' }) do
      local value, problem = mado[verb](wrong)
      eq({ nil, 'bad_argument' }, { value, problem.code }, verb)
      has(problem.message, verb .. ': expected a table, not ' .. type(wrong))
    end
  end
  eq('unknown_action', select(2, mado.host(5)).code)
  eq('unknown_split', select(2, mado.open({ split = 5 })).code)
  H.settle()
  eq({}, fake.requests)
end)

test('what a text stands for is what the help says', function()
  local mado = require('mado')
  local texts = {
    agent = { 'attach', 'focus', 'hide', 'close', 'restart', 'answer' },
    route = { 'disconnect', 'fire', 'pause', 'resume', 'toggle', 'log' },
    profile = { 'open' },
    name = { 'rename' },
    target = { 'handoff' },
    action = { 'host' },
  }
  for key, verbs in pairs(texts) do
    for _, verb in ipairs(verbs) do
      has(select(2, mado[verb](true)).message, key .. ' must be a string')
    end
  end
end)

test('an error of the host is shown with its remedy', function()
  fake.on.fire = function()
    return nil,
      {
        code = 'no_answer',
        message = 'planner has no answer yet',
        remedy = 'wait for its turn to end',
      }
  end
  run('Mado fire 7')
  H.wait('the error', function()
    return #said > 0
  end)
  eq('mado: planner has no answer yet (wait for its turn to end)', said[1].text)
  fake.on.fire = function()
    return nil, { code = 'x', message = 'the pattern is wrong (route 1)', remedy = 'change it' }
  end
  run('Mado fire 7')
  H.wait('the error', function()
    return #said > 0
  end)
  eq('mado: the pattern is wrong (route 1); change it', said[1].text)
  fake.on.fire = nil
end)

test('an error in the background does not disturb a choice that is being made', function()
  local catch, select = vim.notify, vim.ui.select
  local chosen, in_command
  -- Vim's own picker in what matters here: a function of Vim's that lets events in while it waits.
  rawset(vim, 'notify', H.builtin_notify)
  rawset(vim.ui, 'select', function(items, _, on_choice)
    ok(not in_command, 'the command is over when the picker opens')
    fake:emit('notice', {
      project = project,
      level = 'error',
      code = 'failed',
      key = 'hop:1',
      text = 'hop 1 failed',
    })
    vim.fn.wait(5000, function()
      return vim.fn.execute('messages'):find('hop 1 failed', 1, true) ~= nil
    end, 5)
    chosen = items[2].name
    on_choice(items[2])
  end)
  fake.requests = {}
  fake.on.answer = function() end
  in_command = true
  vim.cmd('Mado answer')
  in_command = false
  H.wait('the request', function()
    return #fake:asked('answer') > 0
  end)
  rawset(vim, 'notify', catch)
  rawset(vim.ui, 'select', select)
  fake.on.answer = nil
  eq({ 'reviewer', 'reviewer' }, { chosen, fake:asked('answer')[1].params.agent })
end)

test('CTRL-C chooses nothing, without a word', function()
  local select, asked = vim.ui.select, false
  rawset(vim.ui, 'select', function()
    asked = true
    error('Keyboard interrupt')
  end)
  vim.cmd('let v:errmsg = ""')
  run('Mado answer')
  H.wait('the choice', function()
    return asked
  end)
  H.settle()
  rawset(vim.ui, 'select', select)
  eq({ '', {} }, { vim.v.errmsg, said })
end)

test('a name of a buffer that stands for nothing is one plain message', function()
  local catch = vim.notify
  rawset(vim, 'notify', H.builtin_notify)
  for _, name in ipairs({ 'agent/nope', 'nonsense' }) do
    vim.cmd('messages clear')
    -- An error inside an autocommand would be an exception here.
    vim.cmd('edit mado://' .. name)
    local messages = vim.fn.execute('messages')
    ok(messages:find('^\nmado: [^\n]*$'), messages)
  end
  rawset(vim, 'notify', catch)
  vim.cmd('enew')
end)

test('subcommands, agents, routes, options and values complete from what is known', function()
  eq({ 'connect' }, complete('Mado conn'))
  eq({ 'planner', 'reviewer', 'split=' }, complete('Mado attach '))
  eq({ 'reviewer' }, complete('Mado attach r'))
  eq({ 'planner->reviewer' }, complete('Mado fire '))
  eq({ 'reviewer', 'chain_tokens=' }, vim.list_slice(complete('Mado connect planner '), 1, 2))
  eq(
    { 'trigger=on-idle', 'trigger=on-keyword', 'trigger=on-turn', 'trigger=on-complete' },
    (function()
      local found = complete('Mado connect planner reviewer trigger=on-')
      table.sort(found, function(a, b)
        local order = { ['on-idle'] = 1, ['on-keyword'] = 2, ['on-turn'] = 3, ['on-complete'] = 4 }
        return order[a:sub(9)] < order[b:sub(9)]
      end)
      return found
    end)()
  )
  eq(
    { 'max_rounds=1', 'max_rounds=5', 'max_rounds=20' },
    complete('MadoConnect! planner reviewer max_rounds=')
  )
  ok(not vim.list_contains(complete('Mado connect planner reviewer trigger=always '), 'trigger='))
  eq({ 'split=left' }, complete('Mado open demo split=l'))
  eq({ 'demo' }, complete('MadoOpen d'))
  eq({ 'on-turn' }, complete('Mado trigger planner->reviewer on-t'))
  eq({ 'full-output' }, complete('MadoTransform 7 f'))
  eq({ 'status', 'restart', 'stop' }, complete('Mado host '))
  eq({}, complete('Mado pause planner->reviewer '))
  eq({}, complete('Mado nonsense '))
end)

test('the profiles that there are complete: built in, of setup, and files', function()
  local kept = vim.env.MADO_CONFIG
  vim.env.MADO_CONFIG = fake.dir .. '/config'
  eq(
    { 'claude', 'codex', 'demo', 'opencode', 'shell' },
    vim.list_slice(complete('Mado open '), 1, 5)
  )
  vim.fn.mkdir(fake.dir .. '/config/profiles', 'p')
  for _, name in ipairs({ 'aider.toml', 'claude.toml', 'notes.md', '.toml' }) do
    vim.fn.writefile({}, fake.dir .. '/config/profiles/' .. name)
  end
  ok(require('mado').setup({ profiles = { mine = {} } }))
  eq(
    { 'aider', 'claude', 'codex', 'demo', 'mine', 'opencode', 'shell', 'name=' },
    vim.list_slice(complete('Mado open '), 1, 8)
  )
  ok(require('mado').setup({}))
  vim.env.MADO_CONFIG = kept
end)

test('completion asks nobody', function()
  fake.requests = {}
  for _, line in ipairs({ 'Mado ', 'Mado attach ', 'Mado connect planner ', 'Mado pause ' }) do
    complete(line)
  end
  H.settle()
  eq({}, fake.requests)
end)

test('two routes between the same agents complete as their ids', function()
  state.route(fake:route({ id = 8 }))
  eq({ '7', '8' }, complete('Mado pause '))
  state.route_gone(8)
end)

require('log_cases')(H, fake, run, refused)

test('without a host a listing says so and starts none', function()
  fake:die()
  H.wait('the loss to be seen', function()
    require('mado.rpc').check()
    return require('mado.rpc').session(project) == nil
  end)
  os.remove(fake.dir .. '/editor.sock')
  vim.env.MADO_BIN = '/bin/false'
  for _, command in ipairs({
    'Mado agents',
    'Mado routes',
    'Mado log',
    'Mado pause',
    'Mado next',
    'Mado host',
  }) do
    run(command)
    H.wait(command .. ' to say something', function()
      return #said > 0
    end)
    eq('mado: no host is running (:Mado open starts one)', said[1].text, command)
  end
end)

H.run()
