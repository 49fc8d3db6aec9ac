-- `mado://hop/{id}`: one hop as markdown, what was decided apart from what came out. It follows the hop.

local M = {}

local state = require('mado.state')

local function clock(ms)
  return os.date('%H:%M:%S', math.floor(ms / 1000)) .. ('.%03d'):format(ms % 1000)
end

-- A fence that the text cannot close.
local function fenced(out, text)
  local longest = 2
  for run in text:gmatch('`+') do
    longest = math.max(longest, #run)
  end
  local fence = ('`'):rep(longest + 1)
  out[#out + 1] = fence .. 'text'
  vim.list_extend(out, vim.split(text, '\n'))
  out[#out + 1] = fence
end

-- What went out beside what would have gone out by evidence and records.
local function shadow(out, say, hop)
  local other = hop.shadow
  if not other then
    return
  end
  say('')
  say('## Shadow (what madoagent would have delivered)')
  say('')
  say('- evidence: %s', other.rung)
  if other.turn then
    say('- turn of %s: %s', state.sender(hop), other.turn)
  end
  if other.prompt == '' then
    say('- it would have delivered nothing')
    return
  elseif other.prompt == hop.prompt then
    say('- the same text')
    return
  end
  say('- `:Mado log` and Enter, then `d` here, show both side by side')
  say('')
  fenced(out, other.prompt)
  say('')
  say('### Difference (- delivered, + madoagent)')
  say('')
  fenced(out, vim.trim(vim.diff((hop.prompt or '') .. '\n', other.prompt .. '\n')))
end

---Shows the delivered text and madoagent's side by side, in a tab page of their own.
---@param hop mado.HopInfo
function M.compare(hop)
  local notify = require('mado.notify')
  if not hop.shadow then
    return notify.info(('hop %d has no shadow (dispatch=shadow makes one)'):format(hop.id))
  end
  local locked = require('mado.split').locked()
  if locked then
    return notify.error(locked)
  end
  local function buffer(which, text)
    local buf = vim.api.nvim_create_buf(false, true)
    vim.bo[buf].bufhidden = 'wipe'
    vim.bo[buf].modeline = false
    vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.split(text, '\n'))
    vim.api.nvim_buf_set_name(buf, ('mado://hop/%d/%s'):format(hop.id, which))
    vim.bo[buf].modifiable = false
    return buf
  end
  vim.cmd('tab split')
  local left = buffer('delivered', hop.prompt or '')
  local right = buffer('madoagent', hop.shadow.prompt)
  vim.api.nvim_win_set_buf(0, left)
  vim.cmd.diffthis()
  vim.api.nvim_open_win(right, true, { split = 'right' })
  vim.cmd.diffthis()
  for _, buf in ipairs({ left, right }) do
    vim.keymap.set('n', 'q', '<Cmd>tabclose<CR>', { buffer = buf, desc = 'mado: close both' })
  end
end

-- What was seen and done, each with its time after the first.
local function audit(say, hop)
  local list = hop.steps or {}
  if #list == 0 then
    return
  end
  say('')
  say('## Audit (what was seen and done)')
  say('')
  for i, step in ipairs(list) do
    if i > 1 and (hop.steps_lost or 0) > 0 and i == #list - 59 then
      say('- (%d more steps)', hop.steps_lost)
    end
    say('- `%+8d ms` %s: %s', step.at - list[1].at, step.kind, step.text)
  end
end

local steps = { 'fired', 'extracted', 'transformed', 'typing', 'submitted', 'accepted', 'answered' }

---@param hop mado.HopInfo
---@return string[]
function M.lines(hop)
  local from = require('mado.state').sender(hop)
  local out = { ('# Hop %d: %s → %s, %s'):format(hop.id, from, hop.target, hop.state), '' }
  local function say(...)
    out[#out + 1] = string.format(...)
  end
  say('## Decided (parameters)')
  say('')
  say('- how: %s', hop.how)
  if hop.route then
    say('- route: %s', hop.route)
  end
  say('- chain: %s, depth %d, round %d', hop.chain, hop.depth, hop.round)
  say('- evidence: %s', hop.rung)
  if hop.provider then
    say('- asked: %s of %s', hop.model or '?', hop.provider)
  end
  if hop.usage then
    local u = hop.usage
    say('- tokens: %d read (%d from the cache), %d written', u.input, u.cached, u.output)
  end
  if hop.turn then
    say('- turn of %s: %s', from, hop.turn)
  end
  for _, text in ipairs({
    { hop.answer, 'Taken from ' .. from },
    { hop.input, 'Given to ' .. (hop.model or 'the model') },
    { hop.prompt, 'Prompt for ' .. hop.target },
  }) do
    if text[1] then
      say('')
      say('### %s', text[2])
      say('')
      fenced(out, text[1])
    end
  end
  say('')
  say('## Came out (results)')
  say('')
  say('- state: %s', hop.state)
  if hop.reason_text ~= '' then
    say('- why: %s (`%s`)', hop.reason_text, hop.reason_code)
  end
  if hop.accepted_as then
    say('- began turn: %s', hop.accepted_as)
  end
  if hop.answered_by then
    say('- answered by turn: %s', hop.answered_by)
  end
  for _, note in ipairs(hop.notes or {}) do
    say('- note: %s', note)
  end
  local begun = hop.times.fired
  local times = {}
  for _, step in ipairs(steps) do
    local at = hop.times[step]
    if at then
      local after = begun and at > begun and (' (+%d ms)'):format(at - begun) or ''
      times[#times + 1] = ('| %s | %s%s |'):format(step, clock(at), after)
    end
  end
  if #times > 0 then
    say('')
    say('| step | at |')
    say('|---|---|')
    vim.list_extend(out, times)
  end
  shadow(out, say, hop)
  audit(say, hop)
  -- A text from elsewhere may hold anything but a line end here.
  return vim.split(table.concat(out, '\n'), '\n')
end

-- What each open buffer shows, so that an unchanged one is left alone.
local shown = {}

---Fills a buffer, leaving the cursors and views of its windows where they are.
---@param buf integer
---@param lines string[]
local function write(buf, lines)
  local text = table.concat(lines, '\n')
  if shown[buf] == text then
    return
  end
  shown[buf] = text
  local views = {}
  for _, win in ipairs(vim.fn.win_findbuf(buf)) do
    views[win] = vim.api.nvim_win_call(win, vim.fn.winsaveview)
  end
  vim.bo[buf].modifiable = true
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  vim.bo[buf].modifiable = false
  vim.bo[buf].modified = false
  for win, view in pairs(views) do
    vim.api.nvim_win_call(win, function()
      vim.fn.winrestview(view)
    end)
  end
end

---Brings the open hop buffers up to date.
function M.refresh()
  for buf in pairs(vim.tbl_extend('keep', {}, shown)) do
    if not vim.api.nvim_buf_is_loaded(buf) then
      shown[buf] = nil
    else
      local hop = state.hop_by_id(vim.b[buf].mado_hop)
      if hop then
        write(buf, M.lines(hop))
      end
    end
  end
end

---Fills a buffer with a hop; one that is not known here is asked for.
---@param buf integer
---@param id integer
function M.read(buf, id)
  vim.bo[buf].buftype = 'nofile'
  vim.bo[buf].bufhidden = 'unload'
  vim.bo[buf].swapfile = false
  vim.bo[buf].undolevels = -1
  vim.bo[buf].filetype = 'markdown'
  vim.b[buf].mado_hop = id
  shown[buf] = nil
  vim.keymap.set('n', 'd', function()
    local hop = state.hop_by_id(id)
    if hop then
      M.compare(hop)
    end
  end, { buffer = buf, nowait = true, desc = 'mado: both texts of a shadow hop side by side' })
  local hop = state.hop_by_id(id)
  if hop then
    return write(buf, M.lines(hop))
  end
  write(buf, { ('mado: asking the host for hop %d …'):format(id) })
  local project = require('mado.project').current()
  local params = { project = project, all = true, hop = id }
  require('mado.rpc').call(project, 'hops', params, {}, function(reply, problem)
    if not vim.api.nvim_buf_is_loaded(buf) then
      return
    end
    local found = reply and reply.value and reply.value[1]
    if found then
      state.hop(found)
      write(buf, M.lines(found))
    else
      local text = problem and tostring(problem) or ('there is no hop %d'):format(id)
      write(buf, { 'mado: ' .. text:gsub('\n', ' ') })
    end
  end)
end

return M
