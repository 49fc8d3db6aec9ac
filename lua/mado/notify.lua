-- Messages for a person. A message from the background is one line that fits the screen: a longer one would stop
-- Neovim at a "Press ENTER", which takes the keyboard away from an agent.

local M = {}

local levels =
  { info = vim.log.levels.INFO, warn = vim.log.levels.WARN, error = vim.log.levels.ERROR }

-- What was last said under each key, so that a repeated notice is not said again.
local said = {}
-- What a notification plugin returned for a key, to replace that very notification.
local records = {}

-- Neovim's own vim.notify writes to the command line; a replaced one has room of its own.
local function is_builtin()
  return debug.getinfo(vim.notify, 'S').source:find('vim/_', 1, true) ~= nil
end

---Shortens text to a number of screen cells.
---@param text string
---@param cells integer
function M.fit(text, cells)
  text = text:gsub('%s+', ' ')
  if vim.fn.strdisplaywidth(text) <= cells then
    return text
  end
  local out = vim.fn.strcharpart(text, 0, cells - 1)
  while vim.fn.strdisplaywidth(out) > cells - 1 do
    out = vim.fn.strcharpart(out, 0, vim.fn.strchars(out) - 1)
  end
  return out .. '…'
end

-- Neovim's own shows an error as an exception wherever something is being tried, and a picker of Vim's, which lets
-- events in while it waits, is such a place: it would end with a traceback. So the error is only written.
local function show(text, level, opts)
  if level == vim.log.levels.ERROR and is_builtin() then
    vim.api.nvim_echo({ { text, 'ErrorMsg' } }, true, {})
  else
    return vim.notify(text, level, opts)
  end
end

local function emit(text, level, key)
  local opts = { title = 'mado' }
  if key then
    -- snacks.nvim and fidget.nvim replace by id, nvim-notify by the record that it returned.
    opts.id = 'mado:' .. key
    opts.replace = records[key]
  end
  local ok, record = pcall(show, text, level, opts)
  if key then
    records[key] = ok and type(record) == 'table' and record or nil
  end
end

-- In terminal mode the next output of the agent puts "-- TERMINAL --" over any message, so there a message is also
-- shown in a corner, where it stays for a while. It takes no focus and covers a few cells only.
local TOAST_MS = 8000

---@type { lines: { text: string, group: string }[], buf: integer?, win: integer? }
local toasts = { lines = {} }

local groups = {
  [vim.log.levels.INFO] = 'DiagnosticInfo',
  [vim.log.levels.WARN] = 'DiagnosticWarn',
  [vim.log.levels.ERROR] = 'DiagnosticError',
}

local namespace = vim.api.nvim_create_namespace('mado.notify')

local function draw_toasts()
  if toasts.win and vim.api.nvim_win_is_valid(toasts.win) then
    vim.api.nvim_win_close(toasts.win, true)
  end
  toasts.win = nil
  if #toasts.lines == 0 then
    return
  end
  if not (toasts.buf and vim.api.nvim_buf_is_valid(toasts.buf)) then
    toasts.buf = vim.api.nvim_create_buf(false, true)
  end
  local texts, width = {}, 1
  for i, line in ipairs(toasts.lines) do
    texts[i] = ' ' .. line.text .. ' '
    width = math.max(width, vim.fn.strdisplaywidth(texts[i]))
  end
  vim.api.nvim_buf_set_lines(toasts.buf, 0, -1, false, texts)
  for i, line in ipairs(toasts.lines) do
    vim.api.nvim_buf_set_extmark(toasts.buf, namespace, i - 1, 0, { line_hl_group = line.group })
  end
  toasts.win = vim.api.nvim_open_win(toasts.buf, false, {
    relative = 'editor',
    anchor = 'NE',
    row = 0,
    col = vim.o.columns,
    width = math.min(width, vim.o.columns),
    height = #texts,
    style = 'minimal',
    focusable = false,
    noautocmd = true,
    zindex = 200,
  })
end

local function toast(text, level)
  local line = { text = text, group = groups[level] }
  table.insert(toasts.lines, line)
  if #toasts.lines > 5 then
    table.remove(toasts.lines, 1)
  end
  draw_toasts()
  vim.defer_fn(function()
    for i, shown in ipairs(toasts.lines) do
      if shown == line then
        table.remove(toasts.lines, i)
        return draw_toasts()
      end
    end
  end, TOAST_MS)
end

---Says something from the background.
function M.background(text, level, key)
  level = level or vim.log.levels.INFO
  if is_builtin() then
    -- Without a redraw two messages in a row scroll and wait for a key.
    vim.cmd.redraw()
    text = M.fit(text, math.max(20, vim.v.echospace))
    if vim.api.nvim_get_mode().mode == 't' then
      toast(text, level)
    end
  end
  emit(text, level, key)
end

---What a notice goes by: keys are those of one project.
---@param project string
---@param key string for example `agent:3`
function M.key(project, key)
  return project .. '\n' .. key
end

---Shows a notice of the host, once per key for as long as its text stays the same.
---@param notice mado.Notice
---@return boolean shown
function M.notice(notice)
  local key = M.key(notice.project, notice.key)
  if said[key] == notice.text then
    return false
  end
  said[key] = notice.text
  -- What is only good to know stands in the log; it is not worth an interruption.
  if notice.level == 'info' or not require('mado.config').get().notify then
    return false
  end
  M.background('mado: ' .. notice.text, levels[notice.level], key)
  return true
end

---Says of a hop that a person sent what came of it. The host gives notice of a failure too, and once is enough:
---whichever comes second is left out.
---@param hop mado.HopInfo
function M.hop(hop)
  local name = require('mado.state').hop_name(hop)
  if hop.state ~= 'failed' then
    local why = hop.reason_text ~= '' and ': ' .. hop.reason_text or ''
    return M.info(('%s, is %s%s'):format(name, hop.state, why))
  end
  local key, text = M.key(hop.project, 'hop:' .. hop.id), ('%s: %s'):format(name, hop.reason_text)
  if said[key] == text then
    return
  end
  said[key] = text
  local restart = ':Mado restart ' .. hop.target
  if hop.reason_code == 'target_exited' and not text:find(restart, 1, true) then
    text = ('%s (%s)'):format(text, restart)
  end
  M.error(text)
end

---Lets a notice be said again, since what it said is over.
---@param project string
---@param key string for example `agent:3`
function M.settled(project, key)
  key = M.key(project, key)
  said[key], records[key] = nil, nil
end

---Says what a command of the user's came to.
function M.info(text)
  vim.notify('mado: ' .. text, vim.log.levels.INFO, { title = 'mado' })
end

---@param problem mado.Error|string
function M.error(problem)
  if type(problem) == 'table' and require('mado.rpc').said_before(problem) then
    return
  end
  show('mado: ' .. tostring(problem), vim.log.levels.ERROR, { title = 'mado' })
end

---A mistake in this plugin: shown once, with what to report.
local bugs = {}
function M.bug(trace)
  local first = trace:match('[^\n]*')
  if not bugs[first] then
    bugs[first] = true
    show(
      'mado: this is a mistake in mado.nvim, please report it: ' .. trace,
      vim.log.levels.ERROR,
      { title = 'mado' }
    )
  end
end

---For tests: as if nothing had been said.
function M.reset()
  said, records, bugs = {}, {}, {}
end

return M
