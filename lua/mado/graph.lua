-- Routes drawn as a graph: which source goes where, under what condition, and what waits for what.

local M = {}

local width = vim.fn.strdisplaywidth

-- ` when /…/`, or nothing.
local function condition(route)
  if not route.when then
    return ''
  end
  local text = route.when:gsub('%s+', ' ')
  return (' when /%s/'):format(require('mado.notify').fit(text, 24))
end

-- Whether there is more to see than the table of routes says: a condition, several targets of one source,
-- several sources that are waited for.
local function worth_it(routes)
  local sources = {}
  for _, route in ipairs(routes) do
    if route.when or route.join or sources[route.source] then
      return true
    end
    sources[route.source] = true
  end
  return false
end

-- Routes in groups by a field, in the order in which they were made.
local function grouped(routes, field, joined)
  local groups, at = {}, {}
  for _, route in ipairs(routes) do
    if (route.join ~= nil) == joined then
      local key = route[field]
      if not at[key] then
        groups[#groups + 1] = {}
        at[key] = groups[#groups]
      end
      table.insert(at[key], route)
    end
  end
  return groups
end

local function fan_out(lines, group)
  local most = 0
  for _, route in ipairs(group) do
    most = math.max(most, #tostring(route.id))
  end
  for i, route in ipairs(group) do
    local source = i == 1 and route.source .. ' ─' or (' '):rep(width(route.source) + 2)
    local fork = #group == 1 and '──'
      or i == 1 and '┬─'
      or i == #group and '└─'
      or '├─'
    local id = (' '):rep(most - #tostring(route.id)) .. route.id
    lines[#lines + 1] = ('%s%s %s%s ─> %s'):format(
      source,
      fork,
      id,
      condition(route),
      route.target
    )
  end
end

local function fan_in(lines, group)
  local left, most = {}, 0
  for i, route in ipairs(group) do
    left[i] = ('%s ─ %d%s '):format(route.source, route.id, condition(route))
    most = math.max(most, width(left[i]))
  end
  for i, route in ipairs(group) do
    local fork = #group == 1 and '──'
      or i == 1 and '─┐'
      or i == #group and '─┴─'
      or '─┤'
    local arrow = i < #group and '' or (' all ─> %s'):format(route.target)
    lines[#lines + 1] = left[i] .. ('─'):rep(most - width(left[i])) .. fork .. arrow
  end
end

---@param routes mado.RouteInfo[] of one project
---@return string[] lines; none when the table says it all
function M.lines(routes)
  local lines = {}
  if not worth_it(routes) then
    return lines
  end
  for _, group in ipairs(grouped(routes, 'source', false)) do
    fan_out(lines, group)
  end
  for _, group in ipairs(grouped(routes, 'target', true)) do
    fan_in(lines, group)
  end
  return lines
end

return M
