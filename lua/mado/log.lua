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
  local line = ('%s  #%d  %s → %s  %s  %s'):format(
    clock(hop.times.fired),
    hop.id,
    state.sender(hop),
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

local function is_quickfix(win)
  local info = vim.fn.getwininfo(win)[1]
  return info ~= nil and info.quickfix == 1 and info.loclist == 0
end

local function quickfix_windows()
  return vim.tbl_filter(is_quickfix, vim.api.nvim_list_wins())
end

-- Whether this tab page shows our list.
local function in_sight()
  local wins = vim.tbl_filter(is_quickfix, vim.api.nvim_tabpage_list_wins(0))
  return #wins > 0 and alive() and vim.fn.getqflist({ id = 0 }).id == list.id
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

-- The window that an entry is opened in: one that shows a hop already, else the last one, else any other, but never one
-- of an agent, whose screen it would take away.
---@return integer? win
local function ordinary_window()
  local function fit(win)
    local buf = vim.api.nvim_win_get_buf(win)
    return vim.api.nvim_win_get_config(win).relative == ''
      and not vim.wo[win].winfixbuf
      and not vim.wo[win].previewwindow
      and (vim.bo[buf].buftype == '' or vim.api.nvim_buf_get_name(buf):match('^mado://hop/') ~= nil)
  end
  local wins = vim.tbl_filter(fit, vim.api.nvim_tabpage_list_wins(0))
  for _, win in ipairs(wins) do
    if vim.b[vim.api.nvim_win_get_buf(win)].mado_hop then
      return win
    end
  end
  local last = vim.fn.win_getid(vim.fn.winnr('#'))
  return vim.list_contains(wins, last) and last or wins[1]
end

---Opens the entry under the cursor of the log.
function M.jump()
  local entry = vim.api.nvim_win_get_cursor(0)[1]
  local win = ordinary_window()
  if win then
    vim.api.nvim_set_current_win(win)
  else
    local buf = vim.api.nvim_create_buf(false, true)
    vim.bo[buf].bufhidden = 'wipe'
    local _, problem = require('mado.split').open(buf, { split = 'above' })
    if problem then
      vim.api.nvim_buf_delete(buf, { force = true })
      return require('mado.notify').error(problem)
    end
  end
  vim.cmd({ cmd = 'cc', count = entry, mods = { silent = true } })
end

-- Vim opens an entry in whatever window comes first, an agent's too. The quickfix buffer is one for all lists, so the
-- key is Vim's own in the others, and a user's mapping comes before ours.
local function map_enter(buf)
  for _, key in ipairs({ '<CR>', '<2-LeftMouse>' }) do
    if vim.fn.maparg(key, 'n', false, true).buffer ~= 1 then
      vim.keymap.set('n', key, function()
        local ours = is_quickfix(vim.api.nvim_get_current_win()) and in_sight()
        return ours and "<Cmd>lua require('mado.log').jump()<CR>" or key
      end, { buffer = buf, expr = true, desc = 'mado: open the hop' })
    end
  end
end

vim.api.nvim_create_autocmd('FileType', {
  group = vim.api.nvim_create_augroup('mado.log', {}),
  pattern = 'qf',
  desc = 'mado: the log opens its entries beside the agents',
  callback = function(args)
    map_enter(args.buf)
  end,
})

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
  local seen = same and in_sight()
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
  elseif not seen then
    -- The newest entry is what one came for; in a list that is being read the cursor stays.
    vim.cmd('normal! G')
  end
end

return M
