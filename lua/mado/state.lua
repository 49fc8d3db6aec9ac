-- What is known of agents, routes and hops: a copy of the host's listings, kept true by its events.
-- Reading it never waits, which is why completion and the statusline read nothing else.

local M = {}

-- How many hops are remembered beyond those that the log shows.
local SPARE_HOPS = 100

---@type table<integer, mado.AgentInfo>
local agents = {}
---@type table<integer, mado.RouteInfo>
local routes = {}
---@type table<integer, mado.HopInfo>
local hops = {}

local status

---@param info mado.AgentInfo
---@return mado.AgentInfo? before
function M.agent(info)
  local before = agents[info.id]
  agents[info.id] = info
  status = nil
  return before
end

---@return mado.AgentInfo? before
function M.agent_gone(id)
  local before = agents[id]
  agents[id] = nil
  status = nil
  return before
end

---@param info mado.RouteInfo
---@return mado.RouteInfo? before
function M.route(info)
  local before = routes[info.id]
  routes[info.id] = info
  status = nil
  return before
end

function M.route_gone(id)
  routes[id] = nil
  status = nil
end

local function drop_old_hops()
  local limit = require('mado.config').get().log.limit + SPARE_HOPS
  local ids = vim.tbl_keys(hops)
  if #ids > limit + SPARE_HOPS then
    table.sort(ids)
    for i = 1, #ids - limit do
      hops[ids[i]] = nil
    end
  end
end

---@param info mado.HopInfo
---@return mado.HopInfo? before
function M.hop(info)
  local before = hops[info.id]
  hops[info.id] = info
  status = nil
  if not before then
    drop_old_hops()
  end
  return before
end

---Forgets a project, or all of them, since the host is gone or the listings come anew.
---@param project? string
function M.forget(project)
  for _, of in ipairs({ agents, routes, hops }) do
    for id, info in pairs(of) do
      if not project or info.project == project then
        of[id] = nil
      end
    end
  end
  status = nil
end

local function listing(of, project)
  local list = {}
  for _, info in pairs(of) do
    if info.project == project then
      list[#list + 1] = info
    end
  end
  table.sort(list, function(a, b)
    return a.id < b.id
  end)
  return list
end

---@return mado.AgentInfo[]
function M.agents(project)
  return listing(agents, project)
end

---@return mado.RouteInfo[]
function M.routes(project)
  return listing(routes, project)
end

---@return mado.HopInfo[] oldest first
function M.hops(project)
  return listing(hops, project)
end

---@return mado.AgentInfo?
function M.agent_by_id(id)
  return agents[id]
end

---@return mado.HopInfo?
function M.hop_by_id(id)
  return hops[id]
end

---@return mado.AgentInfo?
function M.agent_named(project, name)
  for _, info in pairs(agents) do
    if info.project == project and info.name == name then
      return info
    end
  end
end

---The spelling of a route that commands take.
---@param route mado.RouteInfo
function M.route_name(route)
  return route.source .. '->' .. route.target
end

---Who a hop comes from.
---@param hop mado.HopInfo
function M.sender(hop)
  return hop.source == '' and 'you' or hop.source
end

---A hop as messages name it.
---@param hop mado.HopInfo
function M.hop_name(hop)
  return ('hop %d, %s → %s'):format(hop.id, M.sender(hop), hop.target)
end

-- What a phase looks like in the statusline: short, and without colour.
local marks =
  { starting = '…', idle = '✓', busy = '▶', asking = '?', unknown = '⁇', exited = '✗' }

local function make_status(project)
  local parts = {}
  for _, agent in ipairs(M.agents(project)) do
    local text = agent.name .. ' ' .. (marks[agent.phase] or agent.phase)
    if (agent.queue or 0) > 0 then
      text = text .. '+' .. agent.queue
    end
    parts[#parts + 1] = text
  end
  if #parts == 0 then
    return ''
  end
  local count = {}
  for _, route in ipairs(M.routes(project)) do
    count[route.state] = (count[route.state] or 0) + 1
  end
  for _, name in ipairs({ 'paused', 'held', 'stopped' }) do
    if count[name] then
      parts[#parts + 1] = ('%d %s'):format(count[name], name)
    end
  end
  return table.concat(parts, '  ')
end

---One line on the project's agents and routes, made anew only after something changed. It asks nobody.
---@return string
function M.status(project)
  if not status or status.project ~= project then
    status = { project = project, text = make_status(project) }
  end
  return status.text
end

return M
