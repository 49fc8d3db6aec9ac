-- Listings, shown like `:ls`: aligned columns on the message area, coloured by phase and state.

local M = {}

local links = {
  MadoStarting = 'DiagnosticHint',
  MadoIdle = 'DiagnosticOk',
  MadoBusy = 'DiagnosticInfo',
  MadoAsking = 'DiagnosticWarn',
  MadoUnknown = 'DiagnosticWarn',
  MadoExited = 'Comment',
  MadoActive = 'DiagnosticOk',
  MadoPaused = 'DiagnosticHint',
  MadoHeld = 'DiagnosticHint',
  MadoStopped = 'DiagnosticError',
}

local function group(name)
  return 'Mado' .. name:sub(1, 1):upper() .. name:sub(2)
end

---How long something has lasted, in one unit.
---@param ms integer
function M.age(ms)
  local s = math.max(0, math.floor(ms / 1000))
  if s < 120 then
    return s .. ' s'
  elseif s < 7200 then
    return math.floor(s / 60) .. ' min'
  end
  return math.floor(s / 3600) .. ' h'
end

local function now_ms()
  local s, us = vim.uv.gettimeofday()
  return s * 1000 + math.floor(us / 1000)
end

---Rows of cells as chunks for nvim_echo. A cell is a text, or a text with its highlight group.
---@param rows (string|{ [1]: string, [2]: string })[][]
function M.table(rows)
  local widths = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do
      local text = type(cell) == 'table' and cell[1] or cell
      widths[i] = math.max(widths[i] or 0, vim.fn.strdisplaywidth(text))
    end
  end
  local chunks = {}
  for r, row in ipairs(rows) do
    if r > 1 then
      chunks[#chunks + 1] = { '\n' }
    end
    for i, cell in ipairs(row) do
      local text = type(cell) == 'table' and cell[1] or cell
      local pad = i < #row and (' '):rep(widths[i] - vim.fn.strdisplaywidth(text) + 2) or ''
      chunks[#chunks + 1] = { text, type(cell) == 'table' and cell[2] or nil }
      chunks[#chunks + 1] = { pad }
    end
  end
  return chunks
end

-- `below` are lines after the table, an empty one between.
local function echo(rows, below)
  for name, link in pairs(links) do
    vim.api.nvim_set_hl(0, name, { link = link, default = true })
  end
  local chunks = M.table(rows)
  for i, line in ipairs(below or {}) do
    chunks[#chunks + 1] = { (i == 1 and '\n\n' or '\n') .. line }
  end
  vim.api.nvim_echo(chunks, false, {})
end

---@param list mado.AgentInfo[]
function M.agents(list)
  if #list == 0 then
    return require('mado.notify').info('no agent runs in this project (:Mado open starts one)')
  end
  local rows, now = { { 'agent', 'profile', 'phase', 'since', 'queue', 'why' } }, now_ms()
  for _, agent in ipairs(list) do
    local why = agent.reason_text
    if agent.draft then
      why = why == '' and 'a draft is in its composer' or why .. '; a draft is in its composer'
    end
    rows[#rows + 1] = {
      agent.name,
      agent.profile,
      { agent.phase, group(agent.phase) },
      M.age(now - agent.since),
      tostring(agent.queue),
      why,
    }
  end
  echo(rows)
end

-- A kind with the text that it goes by, short enough for a line.
local function with_text(kind, text)
  if not text or text == '' then
    return kind
  end
  -- One line: a template may have many.
  return ('%s "%s"'):format(kind, require('mado.notify').fit(text:gsub('\n', '\\n'), 24))
end

---@param route mado.RouteInfo
function M.trigger(route)
  return with_text(route.trigger, route.trigger == 'on-keyword' and route.pattern)
end

---@param route mado.RouteInfo
function M.transform(route)
  if route.provider and vim.list_contains(require('mado.options').models, route.transform) then
    return ('%s by %s of %s'):format(route.transform, route.model or '?', route.provider)
  end
  return with_text(route.transform, route.transform == 'prompt-wrap' and route.template)
end

---@param list mado.RouteInfo[]
function M.routes(list)
  if #list == 0 then
    return require('mado.notify').info('this project has no route (:Mado connect makes one)')
  end
  local rows = { { 'id', 'route', 'trigger', 'transform', 'state', 'round', 'why' } }
  for _, route in ipairs(list) do
    rows[#rows + 1] = {
      tostring(route.id),
      require('mado.state').route_name(route),
      M.trigger(route),
      M.transform(route),
      { route.state, group(route.state) },
      ('%d/%d'):format(route.round, route.max_rounds),
      route.reason_text,
    }
  end
  echo(rows, require('mado.graph').lines(list))
end

---@param list mado.QueueItem[]
function M.queue(list)
  if #list == 0 then
    return require('mado.notify').info('nothing waits')
  end
  local rows = { { 'target', 'hop', 'from', 'age', 'waits for' } }
  for _, item in ipairs(list) do
    rows[#rows + 1] = {
      item.target,
      tostring(item.hop),
      require('mado.state').sender(item),
      M.age(item.age_ms),
      item.waiting_for,
    }
  end
  echo(rows)
end

---@param status table<string, any>
function M.host(status)
  local rows = {}
  local keys = vim.tbl_keys(status)
  table.sort(keys)
  for _, key in ipairs(keys) do
    local value = status[key]
    rows[#rows + 1] = { key, type(value) == 'table' and vim.json.encode(value) or tostring(value) }
  end
  local bin = require('mado.host').find()
  if bin then
    rows[#rows + 1] = { 'program', ('%s (from %s)'):format(bin.path, bin.from) }
  end
  echo(rows)
end

return M
