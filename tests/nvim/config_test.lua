local arg0 = vim.fs.dirname(vim.uv.fs_realpath(arg[0]))
local H = dofile(arg0 .. '/harness.lua')
local test, eq, has, ok = H.test, H.eq, H.has, H.ok

local said = H.catch_messages()
local config = require('mado.config')

local function refused(opts)
  local before = vim.deepcopy(config.get())
  said[1] = nil
  local set, problem = require('mado').setup(opts)
  eq(nil, set)
  eq(before, config.get(), 'a refused configuration changes nothing')
  has(said[1].text, problem)
  said[1] = nil
  return problem
end

test('everything has a default', function()
  eq('right', config.get().split)
  ok(require('mado').setup())
  ok(require('mado').setup({}))
  eq('right', config.get().split)
end)

test('setup merges over the defaults', function()
  ok(require('mado').setup({ split = 'below', log = { height = 3 }, route = { maxRounds = 2 } }))
  eq('below', config.get().split)
  eq({ limit = 200, height = 3 }, config.get().log)
  eq({ max_rounds = 2 }, config.get().route)
  ok(require('mado').setup({}))
  eq('right', config.get().split)
end)

test('an unknown key is named, with the closest and what there is', function()
  local problem = refused({ splt = 'left' })
  has(problem, 'unknown key "splt"')
  has(problem, 'did you mean "split"?')
  has(problem, 'register')
  has(refused({ log = { hight = 3 } }), 'unknown key "log.hight", did you mean "log.height"?')
  has(refused({ 'left' }), 'named keys only')
end)

test('a wrong type is named with what was expected', function()
  has(refused({ insert = 'yes' }), 'insert must be a boolean, not "yes" (string)')
  has(refused({ log = 10 }), 'log must be a table, not 10 (number)')
  has(refused({ log = { height = 'x' } }), 'log.height must be a number')
  has(refused({ bin = 1 }), 'bin must be a string')
  has(refused({ profiles = { x = 'y' } }), 'profiles.x must be a table')
  eq('setup: profiles must have names as keys, not 1', refused({ profiles = { {} } }))
  has(refused({ env = { A = 1 } }), 'env.A must be a string')
  has(refused('fast'), 'the argument must be a table')
  require('mado').setup('fast')
  eq('mado: setup: the argument must be a table, not "fast" (string)', said[1].text)
end)

test('a value out of range is named with the range', function()
  has(refused({ split = 'up' }), 'split must be right, left, above or below, not "up"')
  has(refused({ size = 2 }), 'size must be a number between 0 and 1')
  has(refused({ size = 0 / 0 }), 'size must be a number between 0 and 1')
  has(
    refused({ log = { height = 10.5 } }),
    'log.height must be a whole number from 1 to 1000, not 10.5 (number)'
  )
  has(refused({ log = { height = 0 } }), 'log.height must be a whole number')
  has(refused({ log = { limit = 1.5 } }), 'log.limit must be a whole number from 1 to 10000')
  has(refused({ log = { limit = math.huge } }), 'log.limit must be a whole number')
  has(refused({ register = 'ab' }), 'register must be one register name')
  has(refused({ route = { max_rounds = 21 } }), 'max_rounds must be a whole number from 1 to 20')
  has(refused({ route = { tigger = 'always' } }), 'did you mean "trigger"?')
  has(refused({ route = { trigger = 'on-idel' } }), 'did you mean "on-idle"?')
end)

test('the program is looked for where the user said, and what was wrong is said', function()
  local host = require('mado.host')
  ok(require('mado').setup({ bin = '/nowhere/mado' }))
  local found, problem = host.find()
  eq(nil, found)
  has(problem.message, '/nowhere/mado')
  ok(require('mado').setup({ bin = '/bin/sh' }))
  eq({ path = '/bin/sh', from = 'setup{ bin = … }' }, host.find())
  ok(require('mado').setup({}))
  vim.env.MADO_BIN = '/nowhere/else'
  found, problem = host.find()
  eq(nil, found)
  has(problem.message, '$MADO_BIN is "/nowhere/else"')
  vim.env.MADO_BIN = '/bin/sh'
  eq('$MADO_BIN', host.find().from)
  vim.env.MADO_BIN = nil
end)

test('providers of models are checked key by key, and no value is repeated', function()
  local function provider(given)
    local problem = refused({ providers = { mine = given } })
    ok(not problem:find('secret', 1, true), problem)
    return problem
  end
  has(provider({}), 'providers.mine.kind is missing: anthropic, openai, command')
  has(provider({ kind = 'antropic' }), 'did you mean "anthropic"?')
  has(provider({ kind = 'openai' }), 'providers.mine.model is missing')
  has(provider({ kind = 'openai', modell = 'm' }), 'did you mean "providers.mine.model"?')
  has(provider({ kind = 'command' }), "providers.mine.command is missing, for example { 'claude'")
  has(provider({ kind = 'command', command = 'secret -p' }), 'must be a list of strings')
  has(provider({ kind = 'openai', model = 'm', retries = 1.5 }), 'retries must be a whole number')
  has(provider({ kind = 'openai', model = 'm', headers = { 'secret' } }), 'a table of strings')
  has(refused({ providers = { mine = 'x' } }), 'providers.mine must be a table')
  has(refused({ templates = { routing = 'x' } }), 'unknown key "templates.routing"')
  has(refused({ provider = 3 }), 'provider must be a string')
  ok(require('mado').setup({
    provider = 'mine',
    providers = { mine = { kind = 'openai', model = 'm', base_url = 'http://127.0.0.1:1/v1' } },
    templates = { summary = 'In one sentence.' },
  }))
  ok(require('mado').setup({}))
end)

test('a report on a provider names the variable of its key and never the key', function()
  local report = require('mado.providers').report
  local mine = { kind = 'anthropic', model = 'm', key_env = 'MADO_TEST_LUA_KEY' }
  vim.env.MADO_TEST_LUA_KEY = nil
  local text, advice = report('mine', mine)
  has(text, 'mine: anthropic, m; MADO_TEST_LUA_KEY is not set')
  has(advice[1], 'set MADO_TEST_LUA_KEY')
  vim.env.MADO_TEST_LUA_KEY = 'secret'
  text, advice = report('mine', mine)
  eq({ 'mine: anthropic, m; MADO_TEST_LUA_KEY is set', nil }, { text, advice })
  local url = 'http://127.0.0.1:1/v1'
  text = report('local', { kind = 'openai', model = 'm', base_url = url })
  has(text, 'no key is needed')
  text, advice = report('cli', { kind = 'command', command = { 'no-such-program' } })
  has(text, 'no-such-program is not found')
  ok(advice)
end)

test('the folders follow the most specific variable', function()
  local host = require('mado.host')
  vim.env.XDG_CONFIG_HOME, vim.env.MADO_CONFIG = nil, nil
  vim.env.HOME, vim.env.XDG_STATE_HOME, vim.env.MADO_HOME, vim.env.MADO_STATE_DIR =
    '/h', nil, nil, nil
  eq('/h/.local/state/mado', host.state_dir())
  eq('/h/.config/mado', host.config_dir())
  vim.env.XDG_CONFIG_HOME = '/c'
  eq('/c/mado', host.config_dir())
  vim.env.XDG_STATE_HOME = '/x'
  eq('/x/mado', host.state_dir())
  vim.env.MADO_HOME = '/m'
  eq('/m/state', host.state_dir())
  eq('/m/config', host.config_dir())
  vim.env.MADO_STATE_DIR = '/s'
  eq('/s', host.state_dir())
end)

H.run()
