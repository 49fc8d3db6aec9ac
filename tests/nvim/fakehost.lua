-- A host that is played by the test: it listens where the plugin looks for one, keeps what it is asked, answers as
-- the test says, and tells events. It speaks real msgpack-RPC over a real socket.

local F = {}

F.__index = F

local function info(of)
  return vim.tbl_extend('force', {
    id = 1,
    name = 'planner',
    project = 'set by the test',
    profile = 'demo',
    pid = 100,
    cwd = '/',
    phase = 'idle',
    rung = 'record',
    reason_code = 'turn_ended',
    reason_text = 'the turn ended',
    draft = false,
    since = 0,
    queue = 0,
    attached = 0,
  }, of or {})
end

local function route(of)
  return vim.tbl_extend('force', {
    id = 1,
    source = 'planner',
    target = 'reviewer',
    project = 'set by the test',
    trigger = 'on-idle',
    transform = 'prompt-wrap',
    dispatch = 'madoagent',
    state = 'active',
    round = 0,
    max_rounds = 5,
    cooldown_ms = 3000,
    reason_code = '',
    reason_text = '',
  }, of or {})
end

local function hop(of)
  return vim.tbl_extend('force', {
    id = 1,
    route = 1,
    chain = 1,
    depth = 0,
    source = 'planner',
    target = 'reviewer',
    project = 'set by the test',
    state = 'queued',
    reason_code = 'target_busy',
    reason_text = 'reviewer is busy',
    rung = 'record',
    how = 'on-idle prompt-wrap',
    round = 1,
    times = { fired = 1700000000000 },
  }, of or {})
end

---Starts listening. `project` is put into everything that it tells.
function F.start(project)
  local dir = vim.fn.tempname()
  vim.fn.mkdir(dir, 'p')
  local self = setmetatable({
    dir = dir,
    project = project,
    requests = {},
    clients = {},
    errors = {},
    protocol = 2,
    agents = {},
    routes = {},
    hops = {},
    on = {},
    next_id = 0,
  }, F)
  vim.env.MADO_STATE_DIR = dir
  self:listen()
  return self
end

function F:listen()
  self.server = vim.uv.new_pipe()
  local path = self.dir .. '/editor.sock'
  vim.uv.fs_unlink(path)
  assert(self.server:bind(path))
  self.server:listen(16, function()
    local client = vim.uv.new_pipe()
    self.server:accept(client)
    self.clients[#self.clients + 1] = client
    local unpack = vim.mpack.Unpacker()
    local rest = ''
    client:read_start(function(_, data)
      if not data then
        if not client:is_closing() then
          client:close()
        end
        return
      end
      rest = rest .. data
      local position = 1
      while position <= #rest do
        local value, after = unpack(rest, position)
        if value == nil then
          -- The unpacker keeps what it has read of an unfinished message.
          rest = ''
          return
        end
        position = after
        self:message(client, value)
      end
      rest = ''
    end)
  end)
  local file = assert(io.open(self.dir .. '/host.json', 'w'))
  file:write(
    vim.json.encode({ pid = 4711, version = '0.1.0', protocol = self.protocol, runtime = self.dir })
  )
  file:close()
end

function F:message(client, message)
  if message[1] == 1 then
    if message[3] ~= vim.NIL then
      self.errors[#self.errors + 1] = message[3]
    end
    return
  end
  assert(message[1] == 2 and message[2] == 'mado', 'only notifications named mado are expected')
  local seq, request = message[3][1], message[3][2]
  self.requests[#self.requests + 1] =
    { seq = seq, method = request.method, params = request.params, client = client }
  local ok, problem = self:answer(request, client)
  if ok or problem then
    self:say(client, { { type = 'reply', seq = seq, ok = ok, error = problem } })
  end
end

function F:answer(request, client)
  if self.on[request.method] then
    return self.on[request.method](request.params, client)
  elseif request.method == 'hello' then
    local value = {
      protocol = self.protocol,
      version = '0.1.0',
      pid = 4711,
      attach_socket = '',
      agents = self.agents,
    }
    return { kind = 'hello', value = value }
  elseif request.method == 'agents' then
    return { kind = 'agents', value = self.agents }
  elseif request.method == 'routes' then
    return { kind = 'routes', value = self.routes }
  elseif request.method == 'hops' then
    return { kind = 'hops', value = self.hops }
  end
  return { kind = 'done' }
end

---Calls the plugin as the host does.
function F:say(client, batch)
  self.next_id = self.next_id + 1
  local call = { 0, self.next_id, 'nvim_exec_lua', { "require('mado.rpc').on(...)", { batch } } }
  client:write(vim.mpack.encode(call))
end

---Tells every client an event.
function F:emit(event, data)
  for _, client in ipairs(self.clients) do
    if not client:is_closing() then
      self:say(client, { { type = 'event', event = event, data = data } })
    end
  end
end

function F:agent(of)
  return info(vim.tbl_extend('keep', of or {}, { project = self.project }))
end

function F:route(of)
  return route(vim.tbl_extend('keep', of or {}, { project = self.project }))
end

function F:hop(of)
  return hop(vim.tbl_extend('keep', of or {}, { project = self.project }))
end

---The requests of one method, oldest first.
function F:asked(method)
  return vim.tbl_filter(function(request)
    return request.method == method
  end, self.requests)
end

---Dies as by a signal: the connections break, the files stay.
function F:die()
  for _, client in ipairs(self.clients) do
    if not client:is_closing() then
      client:close()
    end
  end
  self.clients = {}
  self.server:close()
end

return F
