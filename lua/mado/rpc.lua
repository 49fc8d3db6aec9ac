-- The connections to the host, one for each project that this editor works in. Requests go out as
-- notifications with a number and answers come back as a call of `on`, so nothing here ever waits.

local M = {}

local err = require('mado.err')
local host = require('mado.host')

---Must equal the host's; a test holds it.
M.PROTOCOL = 2

-- How long a host may take to answer `hello`, and how often a lost connection is looked for, milliseconds.
-- Neovim has no event for a closed channel.
local HELLO_MS = 3000
local WATCH_MS = 1000

-- After a loss, how soon the next host is looked for, and how seldom in the end, milliseconds.
local AGAIN_MS = 500
local AGAIN_MAX_MS = 30000

---@class mado.Session
---@field project string
---@field chan integer?
---@field status 'connecting'|'ready'|'closed'
---@field hello mado.HelloReply?
---@field waiting fun(problem: mado.Error?)[]
---@field used boolean? a request has been sent over it

---@type table<string, mado.Session>
local sessions = {}
-- Requests that wait for their answer, by number.
local pending = {}
local seq = 0
local watch

---What the last mismatch said, so that it is said once.
local mismatch_said

local function version()
  return require('mado.version')
end

-- JSON's null arrives as vim.NIL, which is true in Lua; absent is nil here.
local function strip(value)
  if value == vim.NIL then
    return nil
  elseif type(value) == 'table' then
    for k, v in pairs(value) do
      value[k] = strip(v)
    end
  end
  return value
end

local function color(name)
  local rgb = vim.api.nvim_get_hl(0, { name = 'Normal', link = false })[name]
  return rgb and ('#%06x'):format(rgb)
end

---@param s mado.Session
local function settle(s, problem)
  local waiting = s.waiting
  s.waiting = {}
  for _, cb in ipairs(waiting) do
    cb(problem)
  end
end

---@param s mado.Session
local function close(s, problem)
  if s.status == 'closed' then
    return
  end
  local chan = s.chan
  s.status, s.chan = 'closed', nil
  if sessions[s.project] == s then
    sessions[s.project] = nil
  end
  if chan then
    pcall(vim.fn.chanclose, chan)
  end
  for number, request in pairs(pending) do
    if request.session == s then
      pending[number] = nil
      request.cb(nil, problem)
    end
  end
  settle(s, problem)
end

local function stop_watch()
  if watch and vim.tbl_isempty(sessions) then
    watch:close()
    watch = nil
  end
end

-- Looks for a next host after one was lost, ever more seldom, and never starts one.
local function look_again(project, delay)
  vim.defer_fn(function()
    if sessions[project] or vim.v.exiting ~= vim.NIL then
      return
    end
    M.connect(project, {}, function(problem)
      if problem and problem.code == 'protocol_mismatch' then
        require('mado.notify').error(problem)
      elseif problem and problem.code ~= 'disconnected' then
        look_again(project, math.min(delay * 2, AGAIN_MAX_MS))
      end
    end)
  end, delay)
end

---@param s mado.Session
local function lost(s)
  if s.status == 'closed' then
    return
  end
  local was_ready = s.status == 'ready'
  local hello = s.hello
  close(
    s,
    err.new('host_gone', 'the host ended before it answered', ':Mado host says what runs now')
  )
  stop_watch()
  if was_ready then
    require('mado.events').host_gone(s.project, hello)
    look_again(s.project, AGAIN_MS)
  end
end

---Looks whether the connections still stand. Cheap; also called when a view ends.
function M.check()
  for _, s in pairs(vim.tbl_extend('keep', {}, sessions)) do
    -- A channel that was closed has no information left.
    if s.chan and vim.tbl_isempty(vim.api.nvim_get_chan_info(s.chan)) then
      lost(s)
    end
  end
end

local function start_watch()
  if not watch then
    watch = assert(vim.uv.new_timer())
    watch:start(WATCH_MS, WATCH_MS, vim.schedule_wrap(M.check))
  end
end

---@param s mado.Session
local function send(s, method, params, cb)
  seq = seq + 1
  pending[seq] = { cb = cb, session = s, method = method }
  local message = { method = method, params = next(params) and params or vim.empty_dict() }
  -- Throws when the channel is gone, and on nothing else.
  local ok = pcall(vim.rpcnotify, s.chan, 'mado', seq, message)
  if not ok then
    vim.schedule(function()
      lost(s)
    end)
  end
  return seq
end

---@return mado.Error
local function mismatch(hello, record)
  local theirs = hello and hello.protocol or record and record.protocol or '?'
  local pid = hello and hello.pid or record and record.pid or '?'
  local running = hello and hello.version or record and record.version or '?'
  local bin = host.find()
  local text = 'the running host (version %s, pid %s) speaks protocol %s, '
    .. 'this plugin (version %s, program %s) speaks %d; its agents stay alive'
  return err.new(
    'protocol_mismatch',
    text:format(running, pid, theirs, version(), bin and bin.path or 'not found', M.PROTOCOL),
    'bring plugin and program to one version, then :Mado host restart, which ends the agents'
  )
end

---@param s mado.Session
local function hello(s)
  local fg, bg = color('fg'), color('bg')
  local timer = assert(vim.uv.new_timer())
  local function stop()
    if not timer:is_closing() then
      timer:close()
    end
  end
  timer:start(
    HELLO_MS,
    0,
    vim.schedule_wrap(function()
      stop()
      if s.status == 'connecting' then
        local text = 'the host does not answer on %s'
        close(
          s,
          err.new(
            'host_silent',
            text:format(host.socket() or 'its socket'),
            'see :checkhealth mado'
          )
        )
      end
    end)
  )
  send(s, 'hello', {
    protocol = M.PROTOCOL,
    client = 'editor',
    version = version(),
    project = s.project,
    colors = fg and bg and { fg, bg } or nil,
  }, function(reply, problem)
    stop()
    if s.status == 'closed' then
      return
    elseif problem then
      if problem.code:find('protocol') then
        problem = mismatch(nil, host.record())
      end
      return close(s, problem)
    elseif reply.value.protocol ~= M.PROTOCOL then
      return close(s, mismatch(reply.value))
    end
    s.hello = reply.value
    M.fill(s)
  end)
end

---Fills the cache, so that names can be completed and resolved, and then lets the waiting requests go.
---@param s mado.Session
function M.fill(s)
  local state = require('mado.state')
  state.forget(s.project)
  local scope = { project = s.project, all = false }
  local left = 2
  local function part(apply)
    return function(reply, problem)
      if problem then
        return close(s, problem)
      end
      for _, info in ipairs(reply.value or {}) do
        apply(info)
      end
      left = left - 1
      if left == 0 and s.status == 'connecting' then
        s.status = 'ready'
        mismatch_said = nil
        require('mado.events').host_here(s.project, s.hello)
        settle(s)
      end
    end
  end
  send(s, 'agents', scope, part(state.agent))
  send(s, 'routes', scope, part(state.route))
  local limit = require('mado.config').get().log.limit
  send(s, 'hops', { project = s.project, all = false, limit = limit }, function(reply)
    for _, info in ipairs(reply and reply.value or {}) do
      state.hop(info)
    end
    require('mado.events').hops_here(s.project)
  end)
end

---@param s mado.Session
---@return boolean
local function dial(s)
  local path = host.socket()
  if not path then
    return false
  end
  local ok, chan = pcall(vim.fn.sockconnect, 'pipe', path, { rpc = true })
  if not ok or chan == 0 then
    return false
  end
  s.chan = chan
  start_watch()
  hello(s)
  return true
end

---Calls back once the connection for a project stands. Without `start` a host is never started.
---@param project string
---@param opts { start?: boolean }
---@param cb fun(problem: mado.Error?)
function M.connect(project, opts, cb)
  M.check()
  local s = sessions[project]
  if s and s.status == 'ready' then
    return cb()
  elseif s then
    -- Being made, or its host being started.
    table.insert(s.waiting, cb)
    return
  end
  s = { project = project, status = 'connecting', waiting = { cb } }
  sessions[project] = s
  if dial(s) then
    return
  elseif not opts.start then
    return close(s, err.new('no_host', 'no host is running', ':Mado open starts one'))
  end
  host.start(function(problem)
    if s.status == 'closed' then
      return
    elseif problem then
      close(s, problem)
    elseif not dial(s) then
      close(s, err.new('no_start', 'the host started and is gone again', 'see :checkhealth mado'))
    end
  end)
end

---Sends a request over a connection that stands or is made, and calls back with its answer.
---@param project string
---@param method string
---@param params table
---@param opts { start?: boolean }
---@param cb fun(reply: { kind: string, value: any }?, problem: mado.Error?)
function M.call(project, method, params, opts, cb)
  M.connect(project, opts, function(problem)
    local s = sessions[project]
    if problem or not s then
      return cb(nil, problem or err.new('host_gone', 'the host is gone'))
    end
    s.used = true
    send(s, method, params, cb)
  end)
end

---Whether an error was the same mismatch again, which a person has already been told.
---@param problem mado.Error
---@return boolean
function M.said_before(problem)
  if problem.code ~= 'protocol_mismatch' then
    return false
  end
  local again = mismatch_said == problem.message
  mismatch_said = problem.message
  return again
end

---Tells the host something that it does not answer. Nothing happens where no connection stands.
function M.tell(project, method, params)
  local s = sessions[project]
  if s and s.status == 'ready' then
    pcall(vim.rpcnotify, s.chan, 'mado', 0, { method = method, params = params })
  end
end

---@return mado.Session?
function M.session(project)
  local s = sessions[project]
  return s and s.status == 'ready' and s or nil
end

---Ends the connection for a project, or all of them, without a word.
function M.disconnect(project)
  for name, s in pairs(vim.tbl_extend('keep', {}, sessions)) do
    if not project or project == name then
      close(s, err.new('disconnected', 'the connection to the host was closed'))
    end
  end
  stop_watch()
end

---Ends the connection for a project, unless a request has been sent over it or is about to be.
function M.leave(project)
  -- Those who waited for the same connection are called back in this turn of the loop.
  vim.schedule(function()
    local s = sessions[project]
    if s and s.status == 'ready' and not s.used then
      M.disconnect(project)
    end
  end)
end

-- Messages that came in and wait for the main loop.
local inbox = {}

local function drain()
  local batch = inbox
  inbox = {}
  for _, message in ipairs(batch) do
    local ok, problem = xpcall(function()
      message = strip(message)
      if message.type == 'reply' then
        local request = pending[message.seq]
        pending[message.seq] = nil
        if request then
          request.cb(message.ok, message.error and err.from(message.error))
        end
      elseif message.type == 'event' then
        require('mado.events').on(message.event, message.data or {})
      end
    end, debug.traceback)
    if not ok then
      require('mado.notify').bug(problem)
    end
  end
end

---Called by the host with a list of replies and events. It only puts them down: the host waits for it to return.
---@param batch table[]
function M.on(batch)
  if type(batch) ~= 'table' then
    return
  end
  local idle = #inbox == 0
  vim.list_extend(inbox, batch)
  if idle and #inbox > 0 then
    vim.schedule(drain)
  end
end

return M
