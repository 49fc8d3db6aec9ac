-- What can be done, as functions: the commands and `require('mado')` are two faces of this file. Each verb takes
-- a table and a callback `cb(value, problem)`, and returns `true` when it is under way or `nil, problem` when it
-- cannot be. Nothing waits; the host decides.

local M = {}

local err = require('mado.err')
local parse = require('mado.parse')
local projects = require('mado.project')
local resolve = require('mado.resolve')
local rpc = require('mado.rpc')
local split = require('mado.split')
local state = require('mado.state')
local window = require('mado.window')

local report = resolve.report
local options = resolve.options
local with_host = resolve.with_host
local ask = resolve.ask
local plain = resolve.plain
local known_agent = resolve.known_agent
local here = resolve.here
local agent_for = resolve.agent_for
local target_for = resolve.target_for
local source_for = resolve.source_for

-- What of the editor's environment means the editor or its terminal, and would be wrong inside an agent.
local not_inherited = {
  'COLUMNS',
  'LINES',
  'MYVIMRC',
  'NVIM',
  'NVIM_LISTEN_ADDRESS',
  'NVIM_LOG_FILE',
  'STY',
  'TERMCAP',
  'TMUX',
  'TMUX_PANE',
  'VIM',
  'VIMRUNTIME',
}

local function environment()
  local env = vim.fn.environ()
  for _, name in ipairs(not_inherited) do
    env[name] = nil
  end
  return vim.tbl_extend('force', env, require('mado.config').get().env)
end

---Makes the `:terminal` of the current buffer an agent.
M.adopt = require('mado.adopt').adopt

local splits = { 'right', 'left', 'above', 'below' }

---Starts an agent in a split.
---@param given { profile?: string, name?: string, cwd?: string, split?: string, args?: string[], enter?: boolean }
function M.open(given, cb)
  cb = cb or report
  local allowed = {
    profile = 'string',
    name = 'string',
    cwd = 'string',
    split = 'string',
    args = 'table',
    enter = 'boolean',
  }
  local o, problem = options('open', given, allowed, 'profile')
  if not o then
    return nil, problem
  end
  local c = require('mado.config').get()
  local profile = o.profile or c.profile
  if o.split and not vim.list_contains(splits, o.split) then
    return nil, err.new('unknown_split', parse.unknown('unknown split', o.split, splits))
  end
  local cwd = o.cwd and vim.fs.normalize(vim.fn.fnamemodify(o.cwd, ':p')) or vim.fn.getcwd()
  if vim.fn.isdirectory(cwd) == 0 then
    return nil,
      err.new('no_directory', ('the directory %s does not exist'):format(cwd), 'correct cwd=')
  end
  local bin
  bin, problem = require('mado.host').find()
  if not bin then
    return nil, problem
  end
  local text = ('mado: starting %s …'):format(o.name or profile)
  local slot, no_room = window.slot({ split = o.split, enter = o.enter, text = text })
  if not slot then
    return nil, no_room
  end
  local function failed(why)
    split.when_free(function()
      split.discard(slot)
    end)
    cb(nil, why)
  end
  local project = projects.of(cwd)
  rpc.connect(project, { start = true }, function(no_host)
    if no_host then
      return failed(no_host)
    end
    -- Only now, since the layout may have changed while the host started.
    local rows, cols = split.size(slot)
    local profiles = vim.tbl_isempty(c.profiles) and vim.empty_dict() or c.profiles
    ask(project, 'open', {
      profile = profile,
      name = o.name,
      cwd = cwd,
      env = environment(),
      args = o.args or {},
      rows = rows,
      cols = cols,
      profiles = profiles,
    }, function(info, refused)
      if refused then
        return failed(refused)
      end
      if not state.agent_by_id(info.id) then
        state.agent(info)
      end
      split.when_free(function()
        cb(info, window.fill(slot, info, { enter = o.enter }))
      end)
    end)
  end)
  return true
end

local shown = { agent = 'string', split = 'string', enter = 'boolean', project = 'string' }

---Shows a running agent here; jumps to it where it is shown already.
function M.attach(given, cb)
  cb = cb or report
  local o, problem = options('attach', given, shown, 'agent')
  if not o then
    return nil, problem
  end
  return with_host(o, cb, function(project)
    local hidden = vim.tbl_filter(function(info)
      return not window.is_shown(info.id) and info.phase ~= 'exited'
    end, state.agents(project))
    local candidates = #hidden > 0 and hidden or nil
    agent_for(project, o.agent, 'Show which agent?', cb, function(info)
      local failed = window.show(info, { split = o.split, enter = o.enter })
      cb(not failed and info or nil, failed)
    end, candidates)
  end)
end

---Jumps to an agent, showing it where it is not shown.
function M.focus(given, cb)
  cb = cb or report
  local o, problem = options('focus', given, shown, 'agent')
  if not o then
    return nil, problem
  end
  return with_host(o, cb, function(project)
    local this = here(project)
    local others = vim.tbl_filter(function(info)
      return not this or info.id ~= this.id
    end, state.agents(project))
    agent_for(project, o.agent, 'Jump to which agent?', cb, function(info)
      local failed = window.show(info, { split = o.split, enter = o.enter })
      cb(not failed and info or nil, failed)
    end, #others > 0 and others or nil)
  end)
end

---Hides an agent's windows in this tab page.
function M.hide(given, cb)
  cb = cb or report
  local o, problem = options('hide', given, { agent = 'string', project = 'string' }, 'agent')
  if not o then
    return nil, problem
  end
  local project = o.project or projects.current()
  local visible = {}
  for _, view in ipairs(window.visible()) do
    visible[#visible + 1] = state.agent_by_id(view.agent)
  end
  if #visible == 0 then
    return nil, err.new('not_shown', 'no window of this tab page shows an agent')
  end
  agent_for(project, o.agent, 'Hide which agent?', cb, function(info)
    local locked = split.locked()
    if locked then
      cb(nil, locked)
    elseif window.hide(info.id) then
      cb(info)
    else
      cb(nil, err.new('not_shown', ('no window of this tab page shows %s'):format(info.name)))
    end
  end, visible)
  return true
end

---Names an agent.
function M.rename(given, cb)
  cb = cb or report
  local allowed = { agent = 'string', name = 'string', project = 'string' }
  local o, problem = options('rename', given, allowed, 'name')
  if not o then
    return nil, problem
  elseif not o.name then
    return nil, err.new('bad_argument', 'rename: name is missing', ':Mado rename [agent] {name}')
  end
  return with_host(o, cb, function(project)
    agent_for(project, o.agent, 'Rename which agent?', cb, function(info)
      ask(project, 'rename', { agent = info.name, name = o.name }, cb)
    end)
  end)
end

-- Ending an agent must name it: the wrong one would be lost.
local function ending(method, after)
  return function(given, cb)
    cb = cb or report
    local o, problem = options(method, given, { agent = 'string', project = 'string' }, 'agent')
    if not o then
      return nil, problem
    elseif not o.agent or o.agent == '' then
      local remedy = (':Mado %s {agent}'):format(method)
      return nil, err.new('bad_argument', method .. ': agent is missing', remedy)
    end
    return with_host(o, cb, function(project)
      local info, unknown = known_agent(project, o.agent)
      if not info then
        return cb(nil, unknown)
      end
      ask(project, method, { agent = info.name }, function(value, failed)
        if not failed and after then
          after(info)
        end
        cb(value, failed)
      end)
    end)
  end
end

---Ends an agent and removes its windows.
M.close = ending('close', function(info)
  window.close(info.id)
end)

---Ends an agent and starts it again.
M.restart = ending('restart')

---Makes a route; with `both` also the way back. The route's options stand beside source and target.
function M.connect(given, cb)
  cb = cb or report
  if given ~= nil and type(given) ~= 'table' then
    return nil, err.new('bad_argument', 'connect: expected a table, not ' .. type(given))
  end
  local fixed = { source = 'string', target = 'string', both = 'boolean', project = 'string' }
  local o, route = {}, vim.deepcopy(require('mado.config').get().route)
  for key, value in pairs(given or {}) do
    if not fixed[key] then
      local option, problem = require('mado.options').check(key, value)
      if not option then
        return nil, err.new('bad_option', 'connect: ' .. problem)
      end
      route[option.key] = option.value
    elseif type(value) ~= fixed[key] then
      local text = 'connect: %s must be a %s, not %s'
      return nil, err.new('bad_argument', text:format(key, fixed[key], vim.inspect(value)))
    else
      o[key] = value
    end
  end
  if o.source and o.source == o.target then
    local text = 'connect: %s cannot be its own target'
    return nil, err.new('self_route', text:format(o.source), 'name another agent')
  end
  return with_host(o, cb, function(project)
    source_for(project, o.source, 'connect', cb, function(source)
      local function go(target)
        local params = { source = source.name, target = target.name, both = o.both or false }
        require('mado.providers').add(params, route)
        params.options = vim.tbl_isempty(route) and vim.empty_dict() or route
        ask(project, 'connect', params, cb)
      end
      target_for(
        project,
        source,
        o.target,
        ('Connect %s to which agent?'):format(source.name),
        cb,
        go
      )
    end)
  end)
end

local route_only = { route = 'string', project = 'string' }
local function route_params(o)
  return { route = o.route or '' }
end

---Removes a route.
M.disconnect = plain('disconnect', route_only, 'route', route_params)
---Fires a route now.
M.fire = plain('fire', route_only, 'route', route_params)

---Changes a route's trigger.
function M.trigger(given, cb)
  local allowed = { route = 'string', trigger = 'string', pattern = 'string', project = 'string' }
  local known = require('mado.options').triggers
  if type(given) == 'table' and given.trigger and not vim.list_contains(known, given.trigger) then
    return nil,
      err.new('unknown_trigger', parse.unknown('unknown trigger', tostring(given.trigger), known))
  end
  return plain('trigger', allowed, nil, function(o)
    return { route = o.route or '', trigger = o.trigger, pattern = o.pattern }
  end)(given, cb)
end

---Changes a route's transform.
function M.transform(given, cb)
  local allowed = {
    route = 'string',
    transform = 'string',
    template = 'string',
    provider = 'string',
    project = 'string',
  }
  local known = require('mado.options').transforms
  if
    type(given) == 'table'
    and given.transform
    and not vim.list_contains(known, given.transform)
  then
    return nil,
      err.new(
        'unknown_transform',
        parse.unknown('unknown transform', tostring(given.transform), known)
      )
  end
  return plain('transform', allowed, nil, function(o)
    local params = {
      route = o.route or '',
      transform = o.transform,
      template = o.template,
      provider = o.provider,
    }
    require('mado.providers').add(params, params)
    return params
  end)(given, cb)
end

local function pause_params(o)
  return { route = o.route, hop = o.hop }
end

local pausing = { route = 'string', project = 'string' }
---Pauses one route, or everything of the project.
M.pause = plain('pause', pausing, 'route', pause_params)
---Resumes one route or held hop, or everything of the project.
M.resume =
  plain('resume', { route = 'string', hop = 'id', project = 'string' }, 'route', pause_params)
---Pauses or resumes everything of the project.
M.toggle = plain('toggle', pausing, 'route', pause_params)

---Opens the prompt of a hop that waits for a yes; where none waits, fires the route and asks.
function M.preview(given, cb)
  cb = cb or report
  local allowed = { route = 'string', hop = 'id', project = 'string' }
  local o, problem = options('preview', given, allowed, 'route')
  if not o then
    return nil, problem
  end
  local preview = require('mado.preview')
  local function show(hop)
    split.when_free(function()
      local failed = preview.open(hop)
      cb(not failed and hop or nil, failed)
    end)
  end
  return with_host(o, cb, function(project)
    local hop = preview.waiting(project, o.route)[1]
    if o.hop then
      hop = state.hop_by_id(o.hop)
      if not hop or not vim.list_contains(preview.waiting(project), hop) then
        local text = ('hop %d waits for no yes'):format(o.hop)
        return cb(nil, err.new('not_waiting', text, ':Mado queue lists what waits'))
      end
    end
    if hop then
      return show(hop)
    end
    ask(project, 'fire', { route = o.route or '', confirm = true }, function(info, failed)
      if failed then
        return cb(nil, failed)
      elseif info.state ~= 'queued' then
        -- A guard stopped it, and the route has said so.
        return cb(info)
      end
      state.hop(info)
      if info.reason_code == 'model' then
        -- The window must not come at a moment of its own choosing.
        local text = 'hop %d %s; :Mado preview opens its prompt when it is written'
        require('mado.notify').info(text:format(info.id, info.reason_text))
        return cb(info)
      end
      show(info)
    end)
  end)
end

local one_hop = { hop = 'id', project = 'string' }

---Takes a hop that has not been submitted out of its queue, for good.
function M.drop(given, cb)
  local o, problem = options('drop', given, one_hop, 'hop')
  if not o then
    return nil, problem
  elseif not o.hop then
    return nil, err.new('bad_argument', 'drop: hop is missing', ':Mado queue lists what waits')
  end
  return plain('drop', one_hop, nil, function(p)
    return { hop = p.hop }
  end)(o, cb)
end

---Sends a source's last answer once, without a route.
function M.handoff(given, cb)
  cb = cb or report
  local allowed = { source = 'string', target = 'string', text = 'string', project = 'string' }
  local o, problem = options('handoff', given, allowed, 'target')
  if not o then
    return nil, problem
  end
  return with_host(o, cb, function(project)
    source_for(project, o.source, 'handoff', cb, function(source)
      local function go(target)
        ask(project, 'handoff', { source = source.name, target = target.name, text = o.text }, cb)
      end
      target_for(
        project,
        source,
        o.target,
        ("Hand %s's answer to which agent?"):format(source.name),
        cb,
        go
      )
    end)
  end)
end

---Queues text for an agent.
function M.send(given, cb)
  cb = cb or report
  local allowed = { agent = 'string', text = 'string', deliver = 'string', project = 'string' }
  local o, problem = options('send', given, allowed)
  if not o then
    return nil, problem
  elseif not o.agent or o.agent == '' then
    return nil, err.new('bad_argument', 'send: agent is missing', ':Mado send {agent} {text}')
  elseif not o.text or vim.trim(o.text) == '' then
    return nil, err.new('bad_argument', 'send: text is missing', ':Mado send {agent} {text}')
  end
  return with_host(o, cb, function(project)
    local info, unknown = known_agent(project, o.agent)
    if not info then
      return cb(nil, unknown)
    end
    ask(project, 'send', { target = info.name, text = o.text, deliver = o.deliver }, cb)
  end)
end

---An agent's last answer, in a buffer; with a callback it is only handed over.
function M.answer(given, cb)
  cb = cb
    or function(value, problem)
      report(nil, problem or require('mado.answer').show(value))
    end
  local o, problem = options('answer', given, { agent = 'string', project = 'string' }, 'agent')
  if not o then
    return nil, problem
  end
  return with_host(o, cb, function(project)
    agent_for(project, o.agent, 'The answer of which agent?', cb, function(info)
      ask(project, 'answer', { agent = info.name }, cb)
    end)
  end)
end

---Jumps to the agent that has waited longest for a person.
function M.next(given, cb)
  cb = cb or report
  local o, problem = options('next', given, { project = 'string' })
  if not o then
    return nil, problem
  end
  return with_host(o, cb, function(project)
    ask(project, 'next', {}, function(value, failed)
      if failed and failed.code == 'nobody_asks' then
        -- Asking for the next one when there is none is no mistake.
        require('mado.notify').info(failed.message)
        return cb(nil)
      elseif failed then
        return cb(nil, failed)
      end
      local not_shown = window.show(value, {})
      cb(value, not_shown)
    end)
  end)
end

local only_project = { project = 'string' }

-- A listing that is known here. With a callback the host is asked.
local function listing(method)
  return function(given, cb)
    local o, problem = options(method, given, only_project)
    if not o then
      return nil, problem
    elseif not cb then
      return vim.deepcopy(state[method](o.project or projects.current()))
    end
    return with_host(o, cb, function(project)
      ask(project, method, { all = false }, cb)
    end)
  end
end

---The project's agents as they are known now. With a callback the host is asked.
---@type fun(given?: table, cb?: function): mado.AgentInfo[]|true|nil, mado.Error?
M.agents = listing('agents')

---The project's routes as they are known now. With a callback the host is asked.
---@type fun(given?: table, cb?: function): mado.RouteInfo[]|true|nil, mado.Error?
M.routes = listing('routes')

---The project's hops as they are known now, oldest first.
---@return mado.HopInfo[]?
---@return mado.Error? problem
function M.hops(given)
  local o, problem = options('hops', given, only_project)
  if not o then
    return nil, problem
  end
  return vim.deepcopy(state.hops(o.project or projects.current()))
end

---What waits, target by target; only the host knows for what.
M.queue = plain('queue', only_project, nil, function()
  return { all = false }
end)

---Opens the log, of one route or of the project.
function M.log(given, cb)
  cb = cb or report
  local o, problem = options('log', given, { route = 'string', project = 'string' }, 'route')
  if not o then
    return nil, problem
  end
  return with_host(o, cb, function(project)
    local failed = require('mado.log').open(project, o.route)
    if not failed or failed.code ~= 'unknown_route' then
      return cb(not failed or nil, failed)
    end
    -- The hops of a new connection may be on their way, and a route that is gone is known by them alone.
    local limit = require('mado.config').get().log.limit
    ask(project, 'hops', { all = false, limit = limit }, function(hops)
      for _, hop in ipairs(hops or {}) do
        state.hop(hop)
      end
      failed = require('mado.log').open(project, o.route)
      cb(not failed or nil, failed)
    end)
  end)
end

---Takes the project's file over; see |mado-project-file|.
function M.load(given, cb)
  cb = cb or report
  local o, problem = options('load', given, only_project)
  if not o then
    return nil, problem
  end
  require('mado.projectfile').load(o.project or projects.current(), function(said, failed)
    cb(said, failed, 'said')
  end)
  return true
end

---Writes the project's agents and routes to its file.
function M.save(given, cb)
  cb = cb or report
  local o, problem = options('save', given, { project = 'string', force = 'boolean' })
  if not o then
    return nil, problem
  end
  return with_host(o, cb, function(project)
    require('mado.projectfile').save(project, o.force, function(said, failed)
      cb(said, failed, 'said')
    end)
  end)
end

M.host = require('mado.hostctl').run

return M
