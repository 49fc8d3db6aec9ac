-- The splits: each shows an agent through `mado attach` in a native terminal buffer. Ending that program, by
-- whatever way the buffer goes, only detaches; the agent lives in the host.

local M = {}

local config = require('mado.config')
local split = require('mado.split')

---@class mado.View
---@field agent integer id of the agent
---@field name string
---@field project string
---@field buf integer
---@field job integer? the `mado attach`; nil once it has ended
---@field pid integer the process that it shows, 0 before that is known
---@field ending boolean? we end it ourselves

---@type table<integer, mado.View> by agent id
local views = {}

local group = vim.api.nvim_create_augroup('mado.window', {})

-- Columns beside the text would change with its length and resize the agent with them.
local window_options = {
  number = false,
  relativenumber = false,
  signcolumn = 'no',
  foldcolumn = '0',
  statuscolumn = '',
  colorcolumn = '',
  list = false,
  spell = false,
  wrap = false,
  cursorline = false,
  scrolloff = 0,
  sidescrolloff = 0,
}

local function dress(win)
  for name, value in pairs(window_options) do
    vim.api.nvim_set_option_value(name, value, { scope = 'local', win = win })
  end
end

local function valid(buf)
  return buf and vim.api.nvim_buf_is_valid(buf)
end

---@param agent integer
---@return mado.View?
local function view_of(agent)
  local view = views[agent]
  if view and not valid(view.buf) then
    views[agent] = nil
    return nil
  end
  return view
end

---A window of the current tab page that shows a buffer, else one of another.
---@return integer?
local function window_of(buf)
  local tab = vim.api.nvim_get_current_tabpage()
  local found
  for _, win in ipairs(vim.fn.win_findbuf(buf)) do
    if vim.api.nvim_win_get_tabpage(win) == tab then
      return win
    end
    found = found or win
  end
  return found
end

---Makes the split for an agent that is being started.
---@param opts { split?: string, enter?: boolean, text?: string }
---@return mado.Slot?
---@return mado.Error? problem
function M.slot(opts)
  local slot, problem = split.slot(opts)
  if slot then
    dress(slot.win)
  end
  return slot, problem
end

-- Jumps to a window and, where the user wants it, into the terminal.
local function enter(win, insert)
  vim.api.nvim_set_current_win(win)
  if insert == nil then
    insert = config.get().insert
  end
  local view = M.view_in(win)
  if insert and view and view.job then
    vim.cmd.startinsert()
  end
end

-- Writing to a terminal needs the last line under the cursor to follow the output.
local function follow(win, buf)
  pcall(vim.api.nvim_win_set_cursor, win, { vim.api.nvim_buf_line_count(buf), 0 })
end

---@param info mado.AgentInfo
local function attach_command(info)
  local bin, problem = require('mado.host').find()
  if not bin then
    return nil, problem
  end
  return { bin.path, 'attach', '--project', info.project, info.name }
end

local function named(name)
  return vim.fn.bufnr('^' .. vim.fn.escape(name, '[]*?{}\\') .. '$')
end

-- Renaming leaves a buffer with the old name behind.
local function name_buffer(buf, wanted)
  local old = vim.api.nvim_buf_get_name(buf)
  local new = wanted
  for n = 2, 100 do
    local owner = named(new)
    if owner == buf then
      return
    elseif owner == -1 then
      break
    end
    -- An agent of another project, or the last screen of an earlier one, has the name.
    new = ('%s#%d'):format(wanted, n)
  end
  if not pcall(vim.api.nvim_buf_set_name, buf, new) then
    return
  end
  local left = old ~= '' and named(old) or -1
  split.when_free(function()
    if left ~= -1 and left ~= buf and valid(left) and not vim.api.nvim_buf_is_loaded(left) then
      vim.api.nvim_buf_delete(left, { force = true })
    end
  end)
end

local renew

-- Shows an agent again that was started again. Its two signs, the end of the view and the new process, come in
-- either order.
---@param view mado.View
---@param info mado.AgentInfo?
local function follow_restart(view, info)
  if not info or info.pid == 0 or info.phase == 'exited' then
    return
  elseif view.pid == 0 then
    view.pid = info.pid
  elseif view.pid ~= info.pid and not view.job and not view.ending then
    split.when_free(function()
      -- Meanwhile the agent may have gone, or been shown again.
      local now = require('mado.state').agent_by_id(view.agent)
      if views[view.agent] == view and valid(view.buf) and not view.ending then
        renew(now or info, view)
      end
    end)
  end
end

---@param view mado.View
local function ended(view)
  view.job = nil
  if view.ending or vim.v.exiting ~= vim.NIL then
    return
  end
  -- The host may be what ended; waiting for the next look would let a command run into it.
  require('mado.rpc').check()
  if views[view.agent] == view then
    follow_restart(view, require('mado.state').agent_by_id(view.agent))
  end
end

---Starts the view of an agent in a window, replacing what the window shows.
---@param info mado.AgentInfo
---@param win integer
---@return mado.View?
---@return mado.Error? problem
local function start(info, win)
  local command, problem = attach_command(info)
  if not command then
    return nil, problem
  end
  local buf = vim.api.nvim_create_buf(true, false)
  local view =
    { agent = info.id, name = info.name, project = info.project, pid = info.pid, buf = buf }
  vim.b[buf].mado_agent = info.name
  vim.b[buf].mado_agent_id = info.id
  vim.b[buf].mado_project = info.project
  vim.api.nvim_win_set_buf(win, buf)
  dress(win)
  local ok, job = pcall(vim.api.nvim_win_call, win, function()
    return vim.fn.jobstart(command, {
      term = true,
      on_exit = function()
        ended(view)
      end,
    })
  end)
  if not ok or job <= 0 then
    vim.api.nvim_buf_delete(buf, { force = true })
    local err = require('mado.err')
    return nil, err.new('no_view', ('%s could not be run: %s'):format(command[1], tostring(job)))
  end
  view.job = job
  vim.bo[buf].bufhidden = 'hide'
  name_buffer(buf, 'mado://agent/' .. info.name)
  dress(win)
  vim.api.nvim_create_autocmd('BufWinEnter', {
    group = group,
    buffer = buf,
    desc = 'mado: no columns beside an agent',
    callback = function()
      dress(0)
    end,
  })
  vim.api.nvim_create_autocmd('TermClose', {
    group = group,
    buffer = buf,
    desc = 'mado: hold the keys until it is known what comes next',
    callback = function()
      if not view.ending then
        require('mado.mode').ended(buf)
      end
    end,
  })
  vim.api.nvim_create_autocmd('BufWipeout', {
    group = group,
    buffer = buf,
    callback = function()
      view.ending = true
      if views[view.agent] == view then
        views[view.agent] = nil
      end
    end,
  })
  views[info.id] = view
  follow(win, buf)
  return view
end

-- Puts a new view into every window that shows the old one.
---@param info mado.AgentInfo
---@param old mado.View
renew = function(info, old)
  local mode, current = require('mado.mode'), vim.api.nvim_get_current_win()
  local wins = vim.fn.win_findbuf(old.buf)
  local typing = vim.list_contains(wins, current) and mode.is_terminal(current)
  if #wins == 0 then
    vim.api.nvim_buf_delete(old.buf, { force = true })
    views[info.id] = nil
    return
  end
  old.ending = true
  local view, problem = start(info, wins[1])
  if not view then
    require('mado.notify').error(problem)
    return
  end
  for i = 2, #wins do
    vim.api.nvim_win_set_buf(wins[i], view.buf)
    dress(wins[i])
    follow(wins[i], view.buf)
  end
  if valid(old.buf) then
    vim.api.nvim_buf_delete(old.buf, { force = true })
  end
  if typing then
    mode.stay(current, view.buf)
  end
  -- The old buffer had the name until now.
  name_buffer(view.buf, 'mado://agent/' .. info.name)
end

---Fills the split of an agent that has started.
---@param slot mado.Slot
---@param info mado.AgentInfo
---@param opts { enter?: boolean }
---@return mado.Error? problem
function M.fill(slot, info, opts)
  if not split.shows(slot.win, slot.buf) then
    -- The user closed it in the meantime; the agent runs all the same.
    return
  end
  local _, problem = start(info, slot.win)
  if problem then
    split.discard(slot)
    return problem
  end
  -- `nt` in a terminal. In any other mode the user is doing something.
  local mode = vim.api.nvim_get_mode().mode
  local here = vim.api.nvim_get_current_win() == slot.win and (mode == 'n' or mode == 'nt')
  if opts.enter ~= false and here and config.get().insert then
    vim.cmd.startinsert()
  end
end

---Shows an agent: jumps to it where it is shown already, else opens a split.
---@param info mado.AgentInfo
---@param opts { split?: string, enter?: boolean, insert?: boolean }
---@return mado.Error? problem
function M.show(info, opts)
  if info.adopted then
    return require('mado.adopt').show(info, opts)
  end
  local locked = split.locked()
  if locked then
    return locked
  end
  local view = view_of(info.id)
  if view and not view.job then
    renew(info, view)
    view = view_of(info.id)
  end
  local win = view and window_of(view.buf)
  if not win then
    local slot, no_room = M.slot({ split = opts.split, enter = opts.enter })
    if not slot then
      return no_room
    end
    win = slot.win
    if view then
      vim.api.nvim_win_set_buf(win, view.buf)
      dress(win)
      follow(win, view.buf)
    else
      local _, problem = start(info, win)
      if problem then
        split.discard(slot)
        return problem
      end
    end
  end
  if opts.enter ~= false then
    enter(win, opts.insert)
  end
end

---Shows an agent in the buffer that `:edit mado://agent/NAME` made.
---@param info mado.AgentInfo
---@param buf integer
function M.show_in(info, buf)
  if info.adopted then
    local problem = require('mado.adopt').show(info, {})
    return problem and require('mado.notify').error(problem)
  end
  local win = window_of(buf)
  if not win then
    return
  end
  local view = view_of(info.id)
  if view and view.job then
    vim.api.nvim_win_set_buf(win, view.buf)
    follow(win, view.buf)
  else
    local _, problem = start(info, win)
    if problem then
      return require('mado.notify').error(problem)
    end
  end
  if valid(buf) then
    vim.api.nvim_buf_delete(buf, { force = true })
  end
  view = view_of(info.id)
  if view then
    name_buffer(view.buf, 'mado://agent/' .. info.name)
  end
end

---The view that a window shows.
---@return mado.View?
function M.view_in(win)
  local buf = vim.api.nvim_win_get_buf(win)
  for _, view in pairs(views) do
    if view.buf == buf then
      return view
    end
  end
end

---The agents that the current tab page shows, in the order of its windows.
---@return mado.View[]
function M.visible()
  local list, seen = {}, {}
  for _, win in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    local view = M.view_in(win)
    if view and not seen[view.agent] then
      seen[view.agent] = true
      list[#list + 1] = view
    end
  end
  return list
end

---@param agent integer
---@return boolean
function M.is_shown(agent)
  local view = view_of(agent)
  return view ~= nil and window_of(view.buf) ~= nil
end

---Hides the windows of an agent in the current tab page; its buffer and its view stay.
---@param agent integer
---@return boolean hidden
function M.hide(agent)
  local view = view_of(agent)
  local hidden = false
  for _, win in ipairs(view and vim.fn.win_findbuf(view.buf) or {}) do
    if vim.api.nvim_win_get_tabpage(win) == vim.api.nvim_get_current_tabpage() then
      split.leave(win)
      hidden = true
    end
  end
  return hidden
end

---Removes an agent that a command of this editor closed: its windows and its buffer.
function M.close(agent)
  local view = view_of(agent)
  if not view then
    return
  end
  view.ending = true
  views[agent] = nil
  split.when_free(function()
    for _, win in ipairs(vim.fn.win_findbuf(view.buf)) do
      split.leave(win)
    end
    if valid(view.buf) then
      vim.api.nvim_buf_delete(view.buf, { force = true })
    end
  end)
end

---An agent changed: its name may have, or it was started again.
---@param info mado.AgentInfo
function M.agent(info)
  local view = view_of(info.id)
  if not view then
    return
  end
  if view.name ~= info.name then
    view.name = info.name
    vim.b[view.buf].mado_agent = info.name
    name_buffer(view.buf, 'mado://agent/' .. info.name)
  end
  follow_restart(view, info)
end

-- Takes a buffer out of use. Its last screen stays for as long as the buffer does, but a later agent may have the
-- same number or name.
---@param view mado.View
local function release(view)
  views[view.agent] = nil
  if not valid(view.buf) then
    return
  end
  vim.b[view.buf].mado_agent = nil
  vim.b[view.buf].mado_agent_id = nil
  name_buffer(view.buf, 'mado://ended/' .. view.name)
end

---An agent is gone from the listings.
function M.gone(agent)
  local view = view_of(agent)
  if view then
    release(view)
  end
end

---The host is gone, and with it all agents of a project, or of every project.
---@param project? string
function M.forget(project)
  require('mado.mode').release()
  for _, view in pairs(vim.tbl_extend('keep', {}, views)) do
    if not project or view.project == project then
      release(view)
    end
  end
end

-- A running terminal job makes `:qa` and `:wqa` fail with E948, and a view is not worth that. Neovim asks after
-- ExitPre, and a job that was told to stop no longer counts.
vim.api.nvim_create_autocmd('ExitPre', {
  group = group,
  desc = 'mado: detach, so that Neovim can quit',
  callback = function()
    for _, view in pairs(views) do
      if view.job then
        view.ending = true
        vim.fn.jobstop(view.job)
      end
    end
    -- Runs only if Neovim did not quit after all, for example over an unsaved file.
    vim.schedule(function()
      if vim.v.exiting ~= vim.NIL then
        return
      end
      for id, view in pairs(vim.tbl_extend('keep', {}, views)) do
        local info = require('mado.state').agent_by_id(id)
        if view.ending and info then
          split.when_free(function()
            renew(info, view)
          end)
        end
      end
    end)
  end,
})

return M
