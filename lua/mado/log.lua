-- The log: the project's hops in a quickfix list of our own, told from others by its id and its context. It
-- follows the hops; the cursor and the view in it stay where they are, and the focus stays with the user.

local M = {}

local state = require('mado.state')

---Which hops a log of a route holds.
---@class mado.LogFilter
---@field ids table<integer, true> the routes, for hops of this host
---@field names table<string, true> their names, for hops of earlier hosts, whose numbers meant other routes
---@field began integer when this host began

---@type { id: integer, project: string, route: string?, filter: mado.LogFilter?, shown: string? }?
local list

---@param filter mado.LogFilter?
---@param hop mado.HopInfo
local function matches(filter, hop)
  if not filter then
    return true
  elseif not hop.route then
    return false
  elseif (hop.times.fired or 0) >= filter.began and next(filter.ids) then
    -- A rename changes what later hops are called, and the route stays the same.
    return filter.ids[hop.route] ~= nil
  end
  return filter.names[hop.source .. '->' .. hop.target] ~= nil
end

---Finds what a person calls a route: one that there is, else one that has left hops.
---@return mado.LogFilter?
---@return mado.Error? problem
local function filter_for(project, text)
  local filter = { ids = {}, names = {}, began = require('mado.host').began() or 0 }
  local wanted = text:gsub('%s', '')
  local known = {}
  for _, route in ipairs(state.routes(project)) do
    local name = state.route_name(route)
    known[#known + 1] = name
    if name == wanted or tostring(route.id) == wanted then
      filter.ids[route.id], filter.names[name] = true, true
    end
  end
  if next(filter.ids) then
    return filter
  end
  local number = tonumber(wanted)
  if number then
    filter.ids[number] = true
  else
    filter.names[wanted] = true
  end
  for _, hop in ipairs(state.hops(project)) do
    if matches(filter, hop) then
      return filter
    end
  end
  local unknown = require('mado.parse').unknown('there is no route', text, known)
  return nil, require('mado.err').new('unknown_route', unknown)
end

local function clock(ms)
  return ms and os.date('%H:%M:%S', math.floor(ms / 1000)) or '--:--:--'
end

local severity = { failed = 'E', stopped = 'E', unconfirmed = 'W', held = 'W' }

---One line on a hop.
---@param hop mado.HopInfo
function M.line(hop)
  local from = hop.source == '' and 'you' or hop.source
  local line = ('%s  #%d  %s → %s  %s  %s'):format(
    clock(hop.times.fired),
    hop.id,
    from,
    hop.target,
    hop.state,
    hop.how
  )
  if hop.round > 0 then
    line = line .. ('  round %d'):format(hop.round)
  end
  if hop.state ~= 'answered' and hop.reason_text ~= '' then
    line = line .. '  ' .. hop.reason_text
  end
  return (line:gsub('%s*\n%s*', ' '))
end

local function items()
  local out = {}
  for _, hop in ipairs(state.hops(list.project)) do
    if matches(list.filter, hop) then
      out[#out + 1] = {
        filename = 'mado://hop/' .. hop.id,
        lnum = 1,
        text = M.line(hop),
        type = severity[hop.state] or '',
        user_data = hop.id,
      }
    end
  end
  local limit = require('mado.config').get().log.limit
  return vim.list_slice(out, math.max(1, #out - limit + 1))
end

---Shows an entry as its line alone; the buffer's name says nothing more.
function M.text(info)
  local all = vim.fn.getqflist({ id = info.id, items = 0 }).items
  local out = {}
  for i = info.start_idx, info.end_idx do
    out[#out + 1] = all[i].text
  end
  return out
end

local function title()
  return list.route and ('mado log %s'):format(list.route) or 'mado log'
end

-- What the list shows, to be told from what it would show now.
local function signature(entries)
  local parts = {}
  for i, item in ipairs(entries) do
    parts[i] = item.type .. item.text
  end
  return table.concat(parts, '\n')
end

-- Whether our list is still among the ten that Neovim keeps.
local function alive()
  if not list then
    return false
  end
  local found = vim.fn.getqflist({ id = list.id, context = 0 })
  return found.id == list.id and type(found.context) == 'table' and found.context.mado == 'log'
end

local function quickfix_windows()
  return vim.tbl_filter(function(win)
    local info = vim.fn.getwininfo(win)[1]
    return info ~= nil and info.quickfix == 1 and info.loclist == 0
  end, vim.api.nvim_list_wins())
end

---Brings the list up to date, if there is one.
function M.refresh()
  if not alive() then
    list = nil
    return
  end
  local new = items()
  local shown = signature(new)
  if shown == list.shown then
    return
  end
  list.shown = shown
  local views = {}
  for _, win in ipairs(quickfix_windows()) do
    views[win] = vim.api.nvim_win_call(win, vim.fn.winsaveview)
  end
  local index = vim.fn.getqflist({ id = list.id, idx = 0 }).idx
  vim.fn.setqflist({}, 'r', { id = list.id, items = new, idx = math.max(1, math.min(index, #new)) })
  for win, view in pairs(views) do
    vim.api.nvim_win_call(win, function()
      vim.fn.winrestview(view)
    end)
  end
end

---Opens the log. This is a command of the user's, so the focus goes to the list.
---@param project string
---@param route string?
---@return mado.Error? problem
function M.open(project, route)
  local filter
  if route then
    local unknown
    filter, unknown = filter_for(project, route)
    if not filter then
      return unknown
    end
  end
  local same = alive() and list.project == project and list.route == route
  if same then
    list.filter = filter
    M.refresh()
    -- Make it the current list again, whatever was looked up meanwhile.
    local number = vim.fn.getqflist({ id = list.id, nr = 0 }).nr
    vim.cmd({ cmd = 'chistory', count = number, mods = { silent = true } })
  else
    list = { id = 0, project = project, route = route, filter = filter }
    local new = items()
    vim.fn.setqflist({}, ' ', {
      title = title(),
      items = new,
      context = { mado = 'log', project = project, route = route },
      quickfixtextfunc = "v:lua.require'mado.log'.text",
    })
    list.id = vim.fn.getqflist({ id = 0 }).id
    list.shown = signature(new)
  end
  local _, problem = require('mado.split').try(function()
    vim.cmd({
      cmd = 'copen',
      count = require('mado.config').get().log.height,
      mods = { split = 'botright' },
    })
  end)
  if problem then
    return problem
  end
  if #vim.fn.getqflist() == 0 then
    require('mado.notify').info('nothing has been routed yet; the log follows what will be')
  elseif not same then
    -- The newest entry is what one came for.
    vim.cmd('normal! G')
  end
end

return M
