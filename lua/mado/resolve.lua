-- What the verbs share: checking their tables, reaching the host, and finding the agents that a person means.

local M = {}

local err = require('mado.err')
local parse = require('mado.parse')
local projects = require('mado.project')
local rpc = require('mado.rpc')
local state = require('mado.state')
local window = require('mado.window')

function M.report(_, problem)
  if problem then
    require('mado.notify').error(problem)
  end
end

---A number as a route or a hop has it.
---@return boolean
function M.is_id(value)
  local number = tonumber(value)
  -- Beyond 2^53 numbers are no longer told apart.
  return number ~= nil and number >= 1 and number < 2 ^ 53 and number == math.floor(number)
end

-- What is wrong with a value; `id` is the number of a route or a hop.
---@return string?
local function wrong(key, want, value)
  if want == 'id' then
    if type(value) ~= 'number' or not M.is_id(value) then
      return ('%s must be a whole number from 1 on, not %s'):format(key, vim.inspect(value))
    end
  elseif type(value) ~= want and not (want == 'string' and type(value) == 'number') then
    return ('%s must be a %s, not %s'):format(key, want, vim.inspect(value))
  elseif key == 'route' and tonumber(value) and not M.is_id(value) then
    local text = 'route must be a whole number from 1 on, or source->target, not %s'
    return text:format(tostring(value))
  end
end

-- Checks the keys of a verb's table. A value that is no table stands for the key `first`. What may be
-- a text or a number is a text in the table that is returned.
function M.options(verb, given, allowed, first)
  if type(given) ~= 'table' and given ~= nil and first then
    given = { [first] = given }
  end
  given = given or {}
  if type(given) ~= 'table' then
    return nil, err.new('bad_argument', ('%s: expected a table, not %s'):format(verb, type(given)))
  end
  local checked = {}
  for key, value in pairs(given) do
    local want = allowed[key]
    if not want then
      local text = parse.unknown(verb .. ': unknown key', tostring(key), vim.tbl_keys(allowed))
      return nil, err.new('unknown_key', text)
    end
    local problem = wrong(key, want, value)
    if problem then
      return nil, err.new('bad_argument', ('%s: %s'):format(verb, problem))
    end
    checked[key] = want == 'string' and tostring(value) or value
  end
  return checked
end

-- Runs `fn(project)` once the host is there. Without one it is an error: only `open` starts a host.
function M.with_host(given, cb, fn)
  local project = given.project or projects.current()
  rpc.connect(project, {}, function(problem)
    if problem then
      return cb(nil, problem)
    end
    fn(project)
  end)
  return true
end

-- Sends a request and hands on the value of its reply.
function M.ask(project, method, params, cb)
  params.project = project
  rpc.call(project, method, params, {}, function(reply, problem)
    cb(reply and (reply.value == nil and true or reply.value), problem, reply and reply.kind)
  end)
end

-- A verb that is one request: its keys, and how they become parameters.
function M.plain(method, allowed, first, params)
  return function(given, cb)
    cb = cb or M.report
    local problem
    given, problem = M.options(method, given, allowed, first)
    if not given then
      return nil, problem
    end
    return M.with_host(given, cb, function(project)
      local p = params(given)
      if p then
        M.ask(project, method, p, cb)
      end
    end)
  end
end

local function names(project)
  return vim.tbl_map(function(agent)
    return agent.name
  end, state.agents(project))
end

---@return mado.AgentInfo?
---@return mado.Error?
function M.known_agent(project, name)
  local info = state.agent_named(project, name)
  if info then
    return info
  end
  local known = names(project)
  local text = parse.unknown('unknown agent', name, known)
  return nil, err.new('unknown_agent', text, #known == 0 and ':Mado open starts one' or '')
end

---The agent that the current window shows.
---@return mado.AgentInfo?
function M.here(project)
  local id = vim.b.mado_agent_id
  local info = id and state.agent_by_id(id)
  return info and info.project == project and info or nil
end

---Lets a person choose, and calls back with what was chosen. The command that asks is over by then: an error inside
---a picker is not the command's, and a command that waits in one would keep what else it holds.
---@param items any[]
---@param opts { prompt: string, format_item?: fun(item: any): string }
---@param fn fun(item: any)
function M.choose(items, opts, fn)
  vim.schedule(function()
    local ok, problem = pcall(vim.ui.select, items, opts, function(item)
      if item ~= nil then
        fn(item)
      end
    end)
    -- Neovim's own picker takes CTRL-C for an error; a person means that nothing is chosen.
    if not ok and not tostring(problem):find('Keyboard interrupt', 1, true) then
      error(problem, 0)
    end
  end)
end

-- Runs `fn` with the agent that was named, if one was.
---@return boolean named
local function by_name(project, name, cb, fn)
  if not name or name == '' then
    return false
  end
  local info, problem = M.known_agent(project, name)
  if info then
    fn(info)
  else
    cb(nil, problem)
  end
  return true
end

-- Finds the agent that a command means: the named one, the one here, the only one, else the one that is chosen.
function M.agent_for(project, name, prompt, cb, fn, candidates)
  if by_name(project, name, cb, fn) then
    return
  end
  candidates = candidates or state.agents(project)
  local this = M.here(project)
  for _, info in ipairs(candidates) do
    if this and info.id == this.id then
      return fn(info)
    end
  end
  if #candidates == 0 then
    return cb(nil, err.new('no_agent', 'no agent runs in this project', ':Mado open starts one'))
  elseif #candidates == 1 then
    return fn(candidates[1])
  end
  M.choose(candidates, {
    prompt = prompt,
    format_item = function(info)
      return ('%s (%s, %s)'):format(info.name, info.profile, info.phase)
    end,
  }, fn)
end

-- The target of a route or hand-off: the named agent, else the only other visible one, else the chosen one.
function M.target_for(project, source, name, prompt, cb, fn)
  if by_name(project, name, cb, fn) then
    return
  end
  local visible, others = {}, {}
  for _, view in ipairs(window.visible()) do
    local info = state.agent_by_id(view.agent)
    if info and info.project == project and info.id ~= source.id then
      visible[#visible + 1] = info
    end
  end
  for _, info in ipairs(state.agents(project)) do
    if info.id ~= source.id then
      others[#others + 1] = info
    end
  end
  if #others == 0 then
    local text = '%s is the only agent of this project'
    return cb(nil, err.new('no_target', text:format(source.name), ':Mado open starts another'))
  end
  M.agent_for(project, nil, prompt, cb, fn, #visible == 1 and visible or others)
end

-- The source of a route or hand-off: the named agent, else the one here.
function M.source_for(project, name, what, cb, fn)
  if by_name(project, name, cb, fn) then
    return
  end
  local this = M.here(project)
  if not this then
    local text = '%s: this window shows no agent, so the source is missing'
    return cb(
      nil,
      err.new('no_source', text:format(what), 'name it, or call it from the window of an agent')
    )
  end
  fn(this)
end

return M
