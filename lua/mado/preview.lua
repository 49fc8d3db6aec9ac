-- `mado://preview/{hop}`: the prompt of a hop that waits for a person's yes, to be read and changed. Writing the buffer
-- is the yes, with what is written; closing it without is the no.

local M = {}

local state = require('mado.state')
local err = require('mado.err')

-- Texts whose yes did not reach the host, by hop: the next preview begins with them.
---@type table<integer, string>
local unsent = {}

---@class mado.Preview
---@field hop integer
---@field project string
---@field decided boolean a yes or a no was given, or somebody else has decided

---@type table<integer, mado.Preview>
local open = {}

local function waits(hop)
  return hop.state == 'queued' and hop.reason_code == 'confirm'
end

---The hops of a project that wait for a yes, the oldest first; of one route, if it is named.
---@param project string
---@param route string?
---@return mado.HopInfo[]
function M.waiting(project, route)
  local wanted = route and route:gsub('%s', ''):gsub('→', '->')
  return vim.tbl_filter(function(hop)
    local name = hop.source .. '->' .. hop.target
    local named = not wanted or tostring(hop.route) == wanted or name == wanted
    return named and waits(hop)
  end, state.hops(project))
end

local function text_of(buf)
  return table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), '\n')
end

-- Ends a preview that was decided. Not at once: after `:wq` its window is gone already, and closing another one
-- here would close what the user looks at.
local function put_away(buf)
  vim.schedule(function()
    require('mado.split').when_free(function()
      if vim.api.nvim_buf_is_valid(buf) then
        vim.bo[buf].modified = false
        pcall(vim.api.nvim_buf_delete, buf, { force = true })
      end
    end)
  end)
end

local function say_yes(buf)
  local preview = open[buf]
  if not preview or preview.decided then
    return require('mado.notify').info('this prompt has been decided already')
  end
  local text = text_of(buf)
  if vim.trim(text) == '' then
    local remedy = 'write one, or close the buffer to drop the hop'
    return require('mado.notify').error(err.new('empty', 'there is no text to send', remedy))
  end
  preview.decided = true
  vim.bo[buf].modified = false
  local params = { project = preview.project, hop = preview.hop, prompt = text }
  require('mado.rpc').call(preview.project, 'approve', params, {}, function(reply, problem)
    if problem then
      unsent[preview.hop] = text
      require('mado.notify').error(problem)
      if vim.api.nvim_buf_is_valid(buf) then
        preview.decided = false
        vim.bo[buf].modified = true
      end
      return
    end
    unsent[preview.hop] = nil
    require('mado.notify').info(reply.value)
    put_away(buf)
  end)
end

local function say_no(buf)
  local preview = open[buf]
  open[buf] = nil
  if not preview or preview.decided then
    return
  end
  unsent[preview.hop] = nil
  local params = { project = preview.project, hop = preview.hop }
  require('mado.rpc').call(preview.project, 'drop', params, {}, function(reply, problem)
    if problem then
      require('mado.notify').error(problem)
    else
      require('mado.notify').info(reply.value)
    end
  end)
end

---Fills a buffer with a hop's prompt.
---@param buf integer
---@param hop mado.HopInfo
function M.fill(buf, hop)
  vim.bo[buf].buftype = 'acwrite'
  vim.bo[buf].bufhidden = 'wipe'
  vim.bo[buf].swapfile = false
  vim.bo[buf].modeline = false
  vim.bo[buf].filetype = 'markdown'
  local text = unsent[hop.id] or hop.prompt or ''
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.split(text, '\n'))
  vim.bo[buf].modified = unsent[hop.id] ~= nil
  vim.b[buf].mado_hop_preview = hop.id
  open[buf] = { hop = hop.id, project = hop.project, decided = false }
  local group = vim.api.nvim_create_augroup('mado.preview.' .. buf, {})
  vim.api.nvim_create_autocmd('BufWriteCmd', {
    group = group,
    buffer = buf,
    desc = 'mado: send this prompt',
    callback = function()
      say_yes(buf)
    end,
  })
  vim.api.nvim_create_autocmd('BufWipeout', {
    group = group,
    buffer = buf,
    desc = 'mado: drop the hop of this prompt',
    callback = function()
      pcall(vim.api.nvim_del_augroup_by_id, group)
      -- Neovim wipes out no buffer when it is left, which is no answer: the hop goes on waiting.
      say_no(buf)
    end,
  })
end

local function winbar(hop)
  local text = ' prompt for %s, hop %d from %s   :w sends it, closing drops it '
  local shown = text:format(hop.target, hop.id, state.sender(hop))
  return (shown:gsub('%%', '%%%%'))
end

---Opens the prompt of a hop that waits for a yes. This is a command of the user's, so the focus goes there.
---@param hop mado.HopInfo
---@return mado.Error? problem
function M.open(hop)
  local split = require('mado.split')
  for buf, preview in pairs(open) do
    local win = preview.hop == hop.id and vim.fn.win_findbuf(buf)[1]
    if win and not preview.decided then
      local problem = split.locked()
      if not problem then
        vim.api.nvim_set_current_win(win)
      end
      return problem
    end
  end
  local buf = vim.api.nvim_create_buf(false, false)
  local win, problem = split.open(buf, { split = 'below', enter = true })
  if problem then
    vim.api.nvim_buf_delete(buf, { force = true })
    return problem
  end
  vim.api.nvim_buf_set_name(buf, 'mado://preview/' .. hop.id)
  M.fill(buf, hop)
  vim.wo[win].winbar = winbar(hop)
  vim.wo[win].number = false
  vim.wo[win].spell = false
end

---`:edit mado://preview/{hop}`
---@param buf integer
---@param id integer
function M.read(buf, id)
  local hop = state.hop_by_id(id)
  if not hop or not waits(hop) then
    vim.bo[buf].buftype = 'nofile'
    return ('hop %s waits for no yes (:Mado queue)'):format(id)
  end
  M.fill(buf, hop)
end

---Brings the open previews up to date: one that was decided elsewhere says so and sends nothing any more.
function M.refresh()
  for buf, preview in pairs(open) do
    local hop = state.hop_by_id(preview.hop)
    if hop and not preview.decided and not waits(hop) and hop.state ~= 'queued' then
      preview.decided = true
      local why = hop.reason_text ~= '' and ': ' .. hop.reason_text or ''
      require('mado.notify').background(
        ('mado: hop %d was decided elsewhere%s'):format(hop.id, why),
        vim.log.levels.WARN,
        'preview:' .. hop.id
      )
      put_away(buf)
    end
  end
end

return M
