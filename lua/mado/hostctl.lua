-- `:Mado host`: what the host is, its restart and its end. What would be lost is said before it is.

local M = {}

local err = require('mado.err')
local host = require('mado.host')
local projects = require('mado.project')
local resolve = require('mado.resolve')
local rpc = require('mado.rpc')
local state = require('mado.state')

local actions = { 'status', 'restart', 'stop' }

-- The agents that end with the host. Those of other projects are known to the host alone.
local function losses(agents)
  local names = {}
  for _, agent in ipairs(agents) do
    if agent.phase ~= 'exited' then
      names[#names + 1] = ('%s (%s)'):format(agent.name, agent.phase)
    end
  end
  if #names == 0 then
    return 'No agent runs.'
  end
  local text = #names == 1 and '1 agent ends: %s.' or #names .. ' agents end: %s.'
  return text:format(table.concat(names, ', '))
end

-- Waits until the socket of the host that ends is gone.
local function gone(cb)
  local timer = assert(vim.uv.new_timer())
  local began = vim.uv.now()
  timer:start(
    0,
    50,
    vim.schedule_wrap(function()
      if timer:is_closing() then
        return
      elseif not host.socket() then
        timer:close()
        cb()
      elseif vim.uv.now() - began > 15000 then
        timer:close()
        cb(err.new('host_stays', 'the host did not end within 15 s', 'see :Mado host status'))
      end
    end)
  )
end

local function stop(cb)
  -- The connections end with the host, and that is no news.
  rpc.disconnect()
  host.run({ 'stop' }, function(result, problem)
    if problem then
      return cb(nil, problem)
    elseif result.code ~= 0 then
      local said = vim.trim(result.stderr or '')
      return cb(nil, err.new('not_stopped', ('the host was not ended: %s'):format(said)))
    end
    gone(function(stays)
      state.forget()
      require('mado.window').forget()
      require('mado.events').changed()
      cb(not stays, stays)
    end)
  end)
end

-- Asks before something is lost; `force` has answered already.
local function confirmed(project, what, force, fn)
  local function ask(agents)
    local lost = losses(agents)
    if force or lost == 'No agent runs.' then
      return fn()
    end
    local prompt = ('%s %s the host?'):format(lost, what)
    resolve.choose({ 'no', 'yes' }, { prompt = prompt }, function(choice)
      if choice == 'yes' then
        fn()
      end
    end)
  end
  rpc.call(project, 'agents', { project = project, all = true }, {}, function(reply)
    ask(reply and reply.value or state.agents(project))
  end)
end

---@param given { action?: string, force?: boolean, project?: string }|string|nil
function M.run(given, cb)
  cb = cb or resolve.report
  local allowed = { action = 'string', force = 'boolean', project = 'string' }
  local o, problem = resolve.options('host', given, allowed, 'action')
  if not o then
    return nil, problem
  end
  local action = o.action or 'status'
  if not vim.list_contains(actions, action) then
    local text = require('mado.parse').unknown('unknown action of host', action, actions)
    return nil, err.new('unknown_action', text)
  end
  local project = o.project or projects.current()
  if action == 'status' then
    rpc.call(project, 'host_status', { project = project }, {}, function(reply, failed)
      cb(reply and reply.value, failed)
    end)
  elseif not host.socket() then
    return nil, err.new('no_host', 'no host is running', ':Mado open starts one')
  elseif action == 'stop' then
    confirmed(project, 'Stop', o.force, function()
      stop(cb)
    end)
  else
    confirmed(project, 'Restart', o.force, function()
      stop(function(_, stays)
        if stays then
          return cb(nil, stays)
        end
        rpc.connect(project, { start = true }, function(failed)
          cb(not failed, failed)
        end)
      end)
    end)
  end
  return true
end

return M
