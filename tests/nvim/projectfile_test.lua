-- The project's file: read when it is trusted and asked for, written whole, against a host that is played here.

local H = dofile(vim.fs.joinpath(vim.fs.dirname(vim.uv.fs_realpath(arg[0])), 'harness.lua'))
local test, eq, ok, has, wait = H.test, H.eq, H.ok, H.has, H.wait

local project = vim.fn.tempname()
vim.fn.mkdir(project .. '/.git', 'p')
vim.cmd.cd(project)
project = vim.uv.fs_realpath(project)
local path = project .. '/.mado/routes.json'
local fake = require('fakehost').start(project)
fake.agents = { fake:agent({ id = 1, name = 'planner' }) }
local said = H.catch_messages()
vim.cmd.runtime('plugin/mado.lua')

-- What a person answers to Neovim's question of trust.
local answers = {}
rawset(vim.fn, 'confirm', function(text)
  answers[#answers + 1] = text
  return 1
end)

local function forget()
  fake.requests, fake.on, answers = {}, {}, {}
  for i = #said, 1, -1 do
    said[i] = nil
  end
end

local function put(text)
  vim.fn.mkdir(vim.fs.dirname(path), 'p')
  local file = assert(io.open(path, 'w'))
  file:write(text)
  file:close()
end

local function trust()
  local buf = vim.fn.bufadd(path)
  vim.fn.bufload(buf)
  vim.api.nvim_buf_call(buf, function()
    vim.cmd('silent! edit!')
  end)
  assert(vim.secure.trust({ action = 'allow', bufnr = buf }))
end

local function told(part)
  wait(part, function()
    for _, message in ipairs(said) do
      if message.text:find(part, 1, true) then
        return true
      end
    end
  end)
end

local nothing = { missing = vim.empty_dict(), made = {}, changed = {}, removed = {} }

local function loads(reply)
  fake.on.load = function()
    return { kind = 'data', value = vim.tbl_extend('force', nothing, reply or {}) }
  end
end

test('without a file there is nothing to load', function()
  forget()
  vim.cmd('Mado load')
  told('there is no .mado/routes.json')
  has(said[1].text, ':Mado save')
end)

test('a file that is not trusted does nothing', function()
  forget()
  put('{"routes": []}')
  vim.cmd('Mado load')
  told('is not trusted, so nothing of it was done')
  eq(1, #answers, 'Neovim asks')
  H.settle()
  eq(0, #fake:asked('load'))
end)

test('a trusted file is sent as it is, and what was done is said', function()
  forget()
  trust()
  loads({ made = { fake:route() }, removed = { 'a->b' } })
  vim.cmd('Mado load')
  told('connected planner->reviewer; removed a->b')
  eq(0, #answers)
  local asked = fake:asked('load')
  eq(1, #asked)
  eq('{"routes": []}', asked[1].params.text)
  eq('.mado/routes.json', asked[1].params.path)
end)

test("the host's word on a mistake is shown", function()
  forget()
  fake.on.load = function()
    return nil,
      {
        code = 'bad_project_file',
        message = '.mado/routes.json:3: routes[0].trigger: unknown variant',
        remedy = 'mend the file',
      }
  end
  vim.cmd('Mado load')
  told('.mado/routes.json:3: routes[0].trigger')
end)

test('agents that do not run are started first, then the file is loaded again', function()
  forget()
  vim.env.MADO_BIN = '/bin/true'
  local count = 0
  fake.on.load = function()
    count = count + 1
    local missing = count == 1 and { helper = { profile = 'demo', cwd = 'sub', args = { '-x' } } }
    return {
      kind = 'data',
      value = vim.tbl_extend('force', nothing, { missing = missing or vim.empty_dict() }),
    }
  end
  fake.on.open = function(params)
    return { kind = 'agent', value = fake:agent({ id = 9, name = params.name }) }
  end
  vim.fn.mkdir(project .. '/sub', 'p')
  vim.cmd('Mado load')
  told('started helper')
  local opened = fake:asked('open')[1].params
  eq({ 'demo', 'helper', project .. '/sub', { '-x' } }, {
    opened.profile,
    opened.name,
    opened.cwd,
    opened.args,
  })
  eq(2, #fake:asked('load'))
  vim.cmd('silent! only!')
  vim.cmd.stopinsert()
end)

test('writing the file here takes it over, without a question', function()
  forget()
  loads({ changed = { fake:route() } })
  vim.cmd.edit(path)
  vim.api.nvim_buf_set_lines(0, 0, -1, false, { '{"routes": [ ]}' })
  vim.cmd.write()
  told('changed planner->reviewer')
  eq(0, #answers)
  has(fake:asked('load')[1].params.text, '{"routes": [ ]}')
end)

test('a change from outside is said and not read', function()
  forget()
  H.settle()
  put('{"routes": [  ]}')
  told('.mado/routes.json has changed (:Mado load takes it over)')
  H.settle()
  eq(0, #fake:asked('load'))
  eq(0, #answers)
end)

test('saving writes the whole and trusts it, but nothing over what is not known', function()
  forget()
  put('somebody else')
  require('mado.projectfile') -- It knows what it has seen, and that was something else.
  fake.on.save = function()
    return { kind = 'data', value = { text = '{"agents": {}}\n', agents = 1, routes = 2 } }
  end
  H.settle()
  forget()
  fake.on.save = function()
    return { kind = 'data', value = { text = '{"agents": {}}\n', agents = 1, routes = 2 } }
  end
  put('somebody else, later')
  vim.cmd('Mado save')
  told('.mado/routes.json holds something else')
  has(said[1].text, ':Mado save!')
  vim.cmd('Mado save!')
  told('holds 1 agent and 2 routes now')
  eq({ '{"agents": {}}' }, vim.fn.readfile(path))
  eq(0, vim.fn.filereadable(path .. '.new'))
  loads()
  vim.cmd('Mado load')
  told('everything is as the file says already')
  eq(0, #answers, 'it is trusted')
  forget()
  fake.on.save = function()
    return { kind = 'data', value = { text = '{"agents": {}}\n', agents = 1, routes = 2 } }
  end
  vim.cmd('Mado save')
  told('holds this already')
end)

test('a folder that cannot be written is named, and nothing is lost', function()
  forget()
  fake.on.save = function()
    return { kind = 'data', value = { text = 'new', agents = 0, routes = 0 } }
  end
  vim.fn.mkdir(path .. '.new')
  vim.cmd('Mado save')
  told('cannot be written')
  eq({ '{"agents": {}}' }, vim.fn.readfile(path))
  vim.fn.delete(path .. '.new', 'd')
  ok(true)
end)

H.run()
