-- Terminals of this editor that mado did not start: a native `:terminal` becomes an agent. The host decides; here
-- are its eyes and hands in Neovim: reading a buffer, pasting into it, and seeing that a person typed into it.
--
-- Nothing watches lines, which would slow the terminal down to a half. While there is an adopted buffer, a timer
-- compares `b:changedtick` ten times a second, and hands the last lines over once nothing was drawn for a moment.

local M = {}

local err = require('mado.err')

---@class mado.Adopted
---@field project string
---@field agent integer? id, once the host has said it
---@field pid integer the agent's process
---@field channel integer
---@field tick integer
---@field first integer? when the first change came that was not handed over, milliseconds
---@field last integer when the last change was seen
---@field count integer lines when they were handed over last
---@field humans integer
---@field checked { token: integer, text: string }?

---@type table<integer, mado.Adopted> by buffer
local adopted = {}

local namespace = vim.api.nvim_create_namespace('mado.adopt')
local group = vim.api.nvim_create_augroup('mado.adopt', {})

-- How often the changedticks are compared, after how much quiet the lines go, and after how much time at the latest.
local TICK_MS = 100
local QUIET_MS = 80
local LATEST_MS = 400

-- Neovim draws a terminal at most 10 ms after its output came. A buffer that has stood for longer than that is
-- drawn; one that does not stand for as long as a look may take is in the middle of something.
local STANDS_NS = 12e6
local ROUNDS = 5
local LOOK_NS = 80e6

-- Lines that are handed over beside the new ones: more than a screen.
local SCREEN = 200
local MOST = 1000

local function now()
  return vim.uv.hrtime() / 1e6
end

local function runs(channel)
  return vim.fn.jobwait({ channel }, 0)[1] == -1
end

-- Whether a buffer can still be read and written to.
local function lives(buf)
  local a = adopted[buf]
  return a and vim.api.nvim_buf_is_valid(buf) and runs(a.channel)
end

local function tell(buf, params)
  local a = adopted[buf]
  if a then
    params.buffer = buf
    require('mado.rpc').tell(a.project, 'adopted', params)
  end
end

-- With `peek` it is not taken for handed over.
local function read(buf, peek)
  local a = adopted[buf]
  local count = vim.api.nvim_buf_line_count(buf)
  local n = math.min(SCREEN + math.max(0, count - a.count), MOST)
  a.count = peek and a.count or count
  return {
    tick = vim.api.nvim_buf_get_changedtick(buf),
    count = count,
    lines = vim.api.nvim_buf_get_lines(buf, math.max(0, count - n), count, false),
    title = vim.b[buf].term_title or '',
    humans = a.humans,
    settled = false,
  }
end

-- What is compared: all that a look can tell of the last screen.
local function text_of(look)
  local from = math.max(1, #look.lines - SCREEN + 1)
  return look.title .. '\n' .. table.concat(look.lines, '\n', from)
end

-- All that a process has written so far, to whatever; nil where the system does not say. What is on its way to the
-- screen is in it.
local function written(pid)
  local file = io.open(('/proc/%d/io'):format(pid))
  local text = file and file:read('*a')
  if file then
    file:close()
  end
  return text and text:match('wchar: (%d+)')
end

-- Calls back once the buffer stands, in which time Neovim takes in what has arrived, or with `false` when it does not.
-- Counted in rounds of the main loop: time alone would say nothing of an editor that was busy meanwhile. On Linux the
-- program must not have written anything either, so that nothing can be on its way.
---@param buf integer
---@param fn fun(stands: boolean)
local function when_it_stands(buf, fn)
  local pid = adopted[buf].pid
  local function tick()
    local drawn = vim.api.nvim_buf_is_valid(buf) and vim.api.nvim_buf_get_changedtick(buf) or -1
    return drawn .. ' ' .. (written(pid) or '')
  end
  local at, since, rounds = tick(), vim.uv.hrtime(), 0
  local latest = since + LOOK_NS
  local look = assert(vim.uv.new_timer())
  local function round()
    if look:is_closing() then
      return
    end
    local t, time = tick(), vim.uv.hrtime()
    if t ~= at then
      at, since, rounds = t, time, 0
    else
      rounds = rounds + 1
    end
    local stands = rounds >= ROUNDS and time - since >= STANDS_NS
    if stands or time >= latest then
      look:close()
      fn(stands)
    end
  end
  look:start(2, 2, vim.schedule_wrap(round))
end

-- Tells the host what became of what it asked.
local function done(buf, project, ask, said, look)
  local params = { buffer = buf, done = { ask = ask, said = said, look = look } }
  require('mado.rpc').tell(project, 'adopted', params)
end

---Called by the host: the buffer as it stands, told with the number `ask`. With a token it is kept for a write that is
---decided on it.
---@param buf integer
---@param ask integer
---@param token integer?
function M.look(buf, ask, token)
  local project = (adopted[buf] or {}).project
  if not lives(buf) then
    return project and done(buf, project, ask, 'gone')
  end
  when_it_stands(buf, function(stands)
    if not lives(buf) then
      return done(buf, project, ask, 'gone')
    end
    local look = read(buf)
    look.settled = stands
    if token and token ~= vim.NIL then
      adopted[buf].checked = { token = token, text = text_of(look) }
    end
    done(buf, project, ask, 'looked', look)
  end)
end

-- Neovim puts the marks of bracketed paste around it if, and only if, the program asked for them.
local function paste(buf, text)
  local filter, ignored = vim.go.termpastefilter, vim.go.eventignore
  vim.go.eventignore = 'all'
  -- It would take tabs out.
  vim.go.termpastefilter = ''
  local ok, problem = pcall(vim.api.nvim_buf_call, buf, function()
    vim.api.nvim_put(vim.split(text, '\n', { plain = true }), 'c', false, false)
  end)
  vim.go.termpastefilter = filter
  vim.go.eventignore = ignored
  if not ok then
    error(problem, 0)
  end
end

-- Types, if nothing speaks against it. From the comparison to the key it is one turn of the main loop.
---@return 'written'|'changed'|'human'|'revoked'
local function type_it(buf, order)
  local a = adopted[buf]
  if order.guard then
    local checked = a.checked
    if not checked or checked.token ~= order.guard or checked.text ~= text_of(read(buf, true)) then
      return 'changed'
    end
  end
  if a.humans > order.keys then
    return 'human'
  elseif not vim.uv.fs_unlink(order.permit) then
    -- The host has given the write up: a pause, most likely.
    return 'revoked'
  end
  if order.paste then
    paste(buf, order.text)
  else
    vim.fn.chansend(a.channel, order.text)
  end
  return 'written'
end

---Called by the host: types, if the buffer is still the one that was looked at and nobody typed since. What came of it
---is told with the number `ask`.
---@param buf integer
---@param ask integer
---@param order { text: string, paste: boolean, permit: string, keys: integer, guard?: integer }
function M.write(buf, ask, order)
  local project = (adopted[buf] or {}).project
  if not lives(buf) then
    return project and done(buf, project, ask, 'gone')
  end
  when_it_stands(buf, function(stands)
    if not lives(buf) then
      done(buf, project, ask, 'gone')
    elseif order.guard and not stands then
      done(buf, project, ask, 'changed')
    else
      local ok, said = pcall(type_it, buf, order)
      done(buf, project, ask, ok and said or 'failed')
    end
  end)
end

local timer

local function hand_over()
  local at = now()
  for buf, a in pairs(adopted) do
    if vim.api.nvim_buf_is_valid(buf) then
      local tick = vim.api.nvim_buf_get_changedtick(buf)
      if tick ~= a.tick then
        a.tick, a.last = tick, at
        a.first = a.first or at
      end
      if a.first and (at - a.last >= QUIET_MS or at - a.first >= LATEST_MS) then
        a.first = nil
        tell(buf, { look = read(buf) })
      end
    end
  end
end

-- What is no key of a person: Neovim's own doing, the mouse, a change of focus.
local no_key = {
  'Mouse',
  'Drag',
  'Release',
  'ScrollWheel',
  'Focus',
  'Ignore',
  'Cmd',
  'Plug',
  'SNR',
  'Lua',
  'CursorHold',
  'Nop',
}

---@param key string
local function is_key(key)
  if key == '' then
    return false
  elseif key:byte() ~= 0x80 then
    return true
  end
  local name = vim.fn.keytrans(key)
  for _, part in ipairs(no_key) do
    if name:find(part, 1, true) then
      return false
    end
  end
  return true
end

-- CTRL-\ begins what leaves terminal mode; only with another key after it does it reach the program.
local LEAVE, NORMAL, ONCE = vim.keycode('<C-\\>'), vim.keycode('<C-n>'), vim.keycode('<C-o>')
local leaving = false

---@param buf integer
---@param chars integer how much text it can be
---@param submits boolean
local function typed(buf, chars, submits)
  local a = adopted[buf]
  a.humans = a.humans + 1
  local said = { humans = a.humans, chars = chars, submits = submits, rest = not submits }
  tell(buf, { typed = said })
end

local function on_key(key)
  local buf = vim.api.nvim_get_current_buf()
  if not adopted[buf] or vim.api.nvim_get_mode().mode ~= 't' then
    leaving = false
    return
  end
  local was = leaving
  leaving = key == LEAVE
  if leaving or (was and (key == NORMAL or key == ONCE)) or not is_key(key) then
    return
  end
  local byte = key:byte()
  local text = byte >= 0x20 and byte ~= 0x7f and byte ~= 0x80
  typed(buf, text and 1 or 0, key == '\r')
end

-- Text that is pasted is no key.
local own_paste, their_paste

local function watch_pastes()
  their_paste = vim.paste
  own_paste = function(lines, phase)
    local buf = vim.api.nvim_get_current_buf()
    if adopted[buf] then
      typed(buf, #table.concat(lines, '\n'), false)
    end
    return their_paste(lines, phase)
  end
  vim.paste = own_paste -- luacheck: ignore 122 (overriding it is what Neovim documents)
end

local function start()
  if timer then
    return
  end
  timer = assert(vim.uv.new_timer())
  timer:start(TICK_MS, TICK_MS, vim.schedule_wrap(hand_over))
  vim.on_key(on_key, namespace)
  watch_pastes()
end

local function stop()
  if timer and vim.tbl_isempty(adopted) then
    timer:close()
    timer = nil
    vim.on_key(nil, namespace)
    if vim.paste == own_paste then
      vim.paste = their_paste -- luacheck: ignore 122
    end
  end
end

---@param buf integer
local function forget(buf)
  if not adopted[buf] then
    return
  end
  adopted[buf] = nil
  if vim.api.nvim_buf_is_valid(buf) then
    vim.api.nvim_clear_autocmds({ group = group, buffer = buf })
    vim.b[buf].mado_agent = nil
    vim.b[buf].mado_agent_id = nil
    vim.b[buf].mado_project = nil
  end
  stop()
end

local function gone(buf, why)
  tell(buf, { gone = why })
  forget(buf)
end

---@param buf integer
local function watch(buf)
  vim.api.nvim_create_autocmd('TermClose', {
    group = group,
    buffer = buf,
    desc = 'mado: the program of an adopted terminal has ended',
    callback = function()
      -- Closing a buffer ends its program; then that is the reason.
      vim.schedule(function()
        gone(buf, 'has ended')
      end)
    end,
  })
  vim.api.nvim_create_autocmd({ 'BufUnload', 'BufWipeout' }, {
    group = group,
    buffer = buf,
    desc = 'mado: an adopted terminal is gone',
    callback = function()
      gone(buf, 'is out of reach: its buffer was closed')
    end,
  })
  vim.api.nvim_create_autocmd('TermRequest', {
    group = group,
    buffer = buf,
    desc = 'mado: what a program says of itself',
    callback = function(args)
      local sequence = type(args.data) == 'table' and args.data.sequence or args.data
      local payload = type(sequence) == 'string' and sequence:match('^\27%](%d+;.*)$')
      if payload and (vim.startswith(payload, '7501;') or vim.startswith(payload, '133;')) then
        tell(buf, { sequence = (payload:gsub('[\7\27\\]*$', '')) })
      end
    end,
  })
end

-- What stands against adopting a buffer.
---@return { channel: integer, pid: integer, tty: string }?
---@return mado.Error? problem
local function inspect(buf)
  local name = vim.b[buf].mado_agent
  if vim.bo[buf].buftype ~= 'terminal' then
    return nil,
      err.new(
        'no_terminal',
        'this buffer is no terminal',
        ':Mado adopt in a :terminal, or :Mado open'
      )
  elseif adopted[buf] or name then
    local text = 'this terminal is the agent %s already'
    return nil, err.new('adopted_already', text:format(name or '(being adopted)'))
  end
  local channel = vim.bo[buf].channel
  local info = vim.api.nvim_get_chan_info(channel)
  local pid = vim.b[buf].terminal_job_pid
  if not pid or info.stream ~= 'job' or not info.pty then
    return nil, err.new('no_job', 'no program runs in this terminal', 'adopt one that has a job')
  elseif not runs(channel) then
    return nil,
      err.new('dead_job', 'the program of this terminal has ended', ':Mado open starts one')
  end
  return { channel = channel, pid = pid, tty = info.pty }
end

---Makes the terminal of the current buffer an agent.
---@param given { profile?: string, name?: string }
function M.adopt(given, cb)
  local resolve = require('mado.resolve')
  cb = cb or resolve.report
  local o, problem =
    resolve.options('adopt', given, { profile = 'string', name = 'string' }, 'profile')
  if not o then
    return nil, problem
  end
  local buf = vim.api.nvim_get_current_buf()
  local found
  found, problem = inspect(buf)
  if not found then
    return nil, problem
  end
  local bin
  bin, problem = require('mado.host').find()
  if not bin then
    return nil, problem
  end
  local cwd = vim.fn.getcwd()
  local project = require('mado.project').of(cwd)
  local profiles = require('mado.config').get().profiles
  require('mado.rpc').connect(project, { start = true }, function(no_host)
    if no_host then
      return cb(nil, no_host)
    elseif adopted[buf] or not vim.api.nvim_buf_is_valid(buf) then
      return cb(nil, err.new('adopted_already', 'this terminal is being adopted, or gone'))
    end
    -- The host looks before it answers.
    adopted[buf] = {
      project = project,
      channel = found.channel,
      pid = found.pid,
      tick = -1,
      last = now(),
      count = 0,
      humans = 0,
    }
    watch(buf)
    start()
    resolve.ask(project, 'adopt', {
      profile = o.profile,
      name = o.name,
      cwd = cwd,
      profiles = vim.tbl_isempty(profiles) and vim.empty_dict() or profiles,
      terminal = { kind = 'nvim', buffer = buf, pid = found.pid, tty = found.tty },
    }, function(info, refused)
      if refused then
        forget(buf)
        return cb(nil, refused)
      end
      local state = require('mado.state')
      if not state.agent_by_id(info.id) then
        state.agent(info)
      end
      if adopted[buf] then
        adopted[buf].agent = info.id
        adopted[buf].pid = info.pid
        vim.b[buf].mado_agent = info.name
        vim.b[buf].mado_agent_id = info.id
        vim.b[buf].mado_project = project
      end
      cb(info)
    end)
  end)
  return true
end

---The buffer of an adopted agent, if it is one of this editor's.
---@param agent integer
---@return integer?
function M.buffer_of(agent)
  for buf, a in pairs(adopted) do
    if a.agent == agent then
      return buf
    end
  end
end

---Jumps to an adopted agent; it is shown where it is, and nowhere else.
---@param info mado.AgentInfo
---@param opts { enter?: boolean }
---@return mado.Error? problem
function M.show(info, opts)
  local buf = M.buffer_of(info.id)
  if not buf then
    local text = '%s was adopted and is shown only where it is: %s'
    return err.new('adopted', text:format(info.name, info.place or 'elsewhere'))
  end
  local wins = vim.fn.win_findbuf(buf)
  if #wins == 0 then
    vim.cmd.split()
    vim.api.nvim_win_set_buf(0, buf)
  elseif opts.enter ~= false then
    vim.api.nvim_set_current_win(wins[1])
  end
end

---An agent changed.
---@param info mado.AgentInfo
function M.agent(info)
  local buf = info.adopted and M.buffer_of(info.id)
  if not buf then
    return
  elseif info.phase == 'exited' then
    forget(buf)
  else
    vim.b[buf].mado_agent = info.name
  end
end

---An agent is gone from the listings.
---@param agent integer
function M.gone(agent)
  local buf = M.buffer_of(agent)
  if buf then
    forget(buf)
  end
end

---The host is gone, and with it what it had adopted.
---@param project? string
function M.forget(project)
  for buf, a in pairs(vim.tbl_extend('keep', {}, adopted)) do
    if not project or a.project == project then
      forget(buf)
    end
  end
end

return M
