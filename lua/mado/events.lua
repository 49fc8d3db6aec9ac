-- What the host's events change here: the cache, the log, the views, `User` autocommands, notifications. Nothing
-- in this file moves the cursor, the focus, the mode or a view.

local M = {}

local state = require('mado.state')

-- Neovim itself shows what is wrong in a user's autocommand; it must not stop the events behind it.
local function fire(pattern, data)
  pcall(vim.api.nvim_exec_autocmds, 'User', { pattern = pattern, modeline = false, data = data })
end

-- `:redrawstatus` would wipe a message off the command line.
local function redraw_statusline()
  if vim.api.nvim__redraw then
    vim.api.nvim__redraw({ statusline = true })
  else
    vim.cmd.redrawstatus({ bang = true })
  end
end

-- Several events of one batch make one refresh.
local refresh_due = false

---Refreshes what shows listings.
function M.changed()
  if refresh_due then
    return
  end
  refresh_due = true
  vim.schedule(function()
    refresh_due = false
    -- Only what has been loaded can be showing something.
    for _, name in ipairs({ 'mado.log', 'mado.hop', 'mado.preview' }) do
      if package.loaded[name] then
        package.loaded[name].refresh()
      end
    end
    if package.loaded['mado'] and package.loaded['mado'].statusline_used then
      redraw_statusline()
    end
  end)
end

local function views()
  return package.loaded['mado.window']
end

local function adopted()
  return package.loaded['mado.adopt']
end

-- What an end makes the host say at once: that the agent ended, and that a hop to it failed. When the host itself ends,
-- its agents end first, and what it then says of each has a remedy that is none. So these notices wait until it is
-- known whether the host goes too. It gives its agents a second before it forces them.
local END_MS = 1500
local of_an_end = { exited = true, target_exited = true }

---@type table<string, mado.Notice>
local ends = {}

local function key_of(project, key)
  return require('mado.notify').key(project, key)
end

---@param notice mado.Notice
local function hold(notice)
  local key = key_of(notice.project, notice.key)
  ends[key] = notice
  vim.defer_fn(function()
    -- If the host is gone and that was not seen yet, this forgets the notice.
    require('mado.rpc').check()
    if ends[key] == notice then
      ends[key] = nil
      require('mado.notify').notice(notice)
    end
  end, END_MS)
end

local handlers = {}

---@param info mado.AgentInfo
function handlers.agent(info)
  local before = state.agent(info)
  if views() then
    views().agent(info)
  end
  if adopted() then
    adopted().agent(info)
  end
  if not before or before.phase ~= info.phase then
    -- Leaving a dialog ends what was said about it; entering one must not, whichever event comes first.
    if before and (before.phase == 'asking' or before.phase == 'exited') then
      require('mado.notify').settled(info.project, 'agent:' .. info.id)
    end
    if info.phase ~= 'exited' then
      ends[key_of(info.project, 'agent:' .. info.id)] = nil
    end
    fire('MadoAgentState', {
      name = info.name,
      phase = info.phase,
      before = before and before.phase,
      agent = vim.deepcopy(info),
    })
  end
end

function handlers.agent_gone(info)
  local before = state.agent_gone(info.id)
  if views() then
    views().gone(info.id)
  end
  if adopted() then
    adopted().gone(info.id)
  end
  require('mado.notify').settled(info.project, 'agent:' .. info.id)
  ends[key_of(info.project, 'agent:' .. info.id)] = nil
  if before and before.phase ~= 'exited' then
    before.phase = 'exited'
    fire('MadoAgentState', { name = info.name, phase = 'exited', agent = before })
  end
end

---@param info mado.RouteInfo
function handlers.route(info)
  local before = state.route(info)
  if info.state == 'stopped' and not (before and before.state == 'stopped') then
    fire('MadoRouteStopped', {
      route = state.route_name(info),
      reason = info.reason_code,
      text = info.reason_text,
      info = vim.deepcopy(info),
    })
  elseif before and before.state == 'stopped' and info.state ~= 'stopped' then
    require('mado.notify').settled(info.project, 'route:' .. info.id)
  end
end

function handlers.route_gone(info)
  state.route_gone(info.id)
end

-- A hop that waits for a person's yes waits in vain where nobody knows of it.
---@param info mado.HopInfo
---@param before mado.HopInfo?
local function ask_for_yes(info, before)
  local waits = info.state == 'queued' and info.reason_code == 'confirm'
  local waited = before and before.state == 'queued' and before.reason_code == 'confirm'
  local notify, key = require('mado.notify'), 'confirm:' .. info.id
  if waits and not waited then
    local text = '%s, waits for your yes; :Mado preview hop=%d'
    notify.notice({
      project = info.project,
      level = 'warn',
      code = 'confirm',
      key = key,
      text = text:format(state.hop_name(info), info.id),
    })
  elseif waited and info.state ~= 'queued' then
    notify.settled(info.project, key)
  end
end

---@param info mado.HopInfo
function handlers.hop(info)
  local before = state.hop(info)
  ask_for_yes(info, before)
  if not before or before.state ~= info.state or before.reason_code ~= info.reason_code then
    fire(
      'MadoRouteHop',
      { hop = vim.deepcopy(info), state = info.state, before = before and before.state }
    )
  end
end

---@param info mado.Notice
function handlers.notice(info)
  if of_an_end[info.code] then
    hold(info)
  else
    require('mado.notify').notice(info)
  end
end

---@param name string
---@param data table
function M.on(name, data)
  local handler = handlers[name]
  -- A newer host of the same protocol may say more; what is not known here is no error.
  if handler then
    handler(data)
    M.changed()
  end
end

---A connection stands.
---@param hello mado.HelloReply
function M.host_here(project, hello)
  fire(
    'MadoHost',
    { state = 'connected', project = project, pid = hello.pid, version = hello.version }
  )
  M.changed()
end

---The hops of a new connection are known. Those that a host left behind before their Enter wait for a person.
function M.hops_here(project)
  local held = {}
  for _, hop in ipairs(state.hops(project)) do
    if hop.state == 'held' then
      held[#held + 1] = hop.id
    end
  end
  if #held > 0 then
    local text = #held == 1 and 'mado: hop %d is held, :Mado resume hop=%d goes on with it'
      or 'mado: '
        .. #held
        .. ' hops are held, from %d on: :Mado log shows them, :Mado resume hop=%d goes on'
    local notify = require('mado.notify')
    notify.background(text:format(held[1], held[1]), vim.log.levels.WARN, 'held')
  end
  M.changed()
end

---A host ended under us. Said once, with what ended with it.
---@param hello mado.HelloReply
function M.host_gone(project, hello)
  local names, agents = {}, state.agents(project)
  for _, agent in ipairs(agents) do
    -- One whose end was not said yet ended with the host.
    if agent.phase ~= 'exited' or ends[key_of(project, 'agent:' .. agent.id)] then
      names[#names + 1] = agent.name
    end
  end
  for key, notice in pairs(ends) do
    if notice.project == project then
      ends[key] = nil
    end
  end
  state.forget(project)
  if views() then
    views().forget(project)
  end
  if adopted() then
    adopted().forget(project)
  end
  fire('MadoHost', { state = 'gone', project = project, pid = hello.pid, version = hello.version })
  M.changed()
  if #agents > 0 then
    local with = #names > 0 and ', and with it ' .. table.concat(names, ', ') or ''
    local text = 'mado: the host (pid %d) has ended%s (:Mado open starts a new one)'
    local notify = require('mado.notify')
    notify.background(text:format(hello.pid, with), vim.log.levels.WARN, 'host')
  end
end

return M
