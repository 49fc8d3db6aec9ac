-- Room for windows: making splits, and giving them back. What cannot be done now is an error with its remedy, never an
-- exception: a full screen and the command-line window are no mistakes of the plugin.

local M = {}

local err = require('mado.err')

local group = vim.api.nvim_create_augroup('mado.split', {})

---Runs something that replaces or deletes buffers, or closes windows: at once, or once the command-line window, which
---allows none of it (E11), is left.
---@param fn fun()
function M.when_free(fn)
  if vim.fn.getcmdwintype() == '' then
    return fn()
  end
  vim.api.nvim_create_autocmd('CmdwinLeave', {
    group = group,
    once = true,
    -- It is still there while this event is handled.
    callback = vim.schedule_wrap(function()
      M.when_free(fn)
    end),
  })
end

---Why a command may change no window now.
---@return mado.Error?
function M.locked()
  if vim.fn.getcmdwintype() ~= '' then
    return err.new('cmdwin', 'the command-line window lets no other be shown', 'leave it: CTRL-C')
  end
end

-- The window that a split divides: the current one, but neither a float nor the log.
local function divided()
  local function fit(win)
    local info = vim.fn.getwininfo(win)[1]
    return info and info.quickfix == 0 and vim.api.nvim_win_get_config(win).relative == ''
  end
  local current = vim.api.nvim_get_current_win()
  if fit(current) then
    return current
  end
  local previous = vim.fn.win_getid(vim.fn.winnr('#'))
  -- -1 divides the whole tab page.
  return previous ~= 0 and fit(previous) and previous or -1
end

local function width_of(win)
  return win == -1 and vim.o.columns or vim.api.nvim_win_get_width(win)
end

local function height_of(win)
  return win == -1 and vim.o.lines or vim.api.nvim_win_get_height(win)
end

---Runs what opens a window, and makes an error of why it cannot.
---@return any? value what `fn` returned
---@return mado.Error? problem
function M.try(fn)
  local locked = M.locked()
  if locked then
    return nil, locked
  end
  local ok, value = pcall(fn)
  if ok then
    return value
  end
  -- Vim's own text, without the places that it went through.
  local why = tostring(value):match('E%d+: [^\n]*') or tostring(value)
  return nil, err.new('no_split', 'there is no room for a split: ' .. why, 'close a window')
end

---Shows a buffer in a split of its own.
---@param buf integer
---@param opts { split: string, enter?: boolean, share?: number }
---@return integer? win
---@return mado.Error? problem
function M.open(buf, opts)
  return M.try(function()
    local beside = divided()
    local across = opts.split == 'left' or opts.split == 'right'
    local size = across and width_of(beside) or height_of(beside)
    local share = opts.share and math.max(1, math.floor(size * opts.share))
    return vim.api.nvim_open_win(buf, opts.enter ~= false, {
      split = opts.split,
      win = beside,
      width = across and share or nil,
      height = not across and share or nil,
    })
  end)
end

---@class mado.Slot
---@field win integer
---@field buf integer the placeholder

---Makes the split for an agent that is being started, at once, so that the layout changes under the command and
---not some time after it.
---@param opts { split?: string, enter?: boolean, text?: string }
---@return mado.Slot?
---@return mado.Error? problem
function M.slot(opts)
  local c = require('mado.config').get()
  local buf = vim.api.nvim_create_buf(false, true)
  vim.bo[buf].bufhidden = 'wipe'
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, { opts.text or '' })
  local win, problem =
    M.open(buf, { split = opts.split or c.split, enter = opts.enter, share = c.size })
  if not win then
    M.when_free(function()
      vim.api.nvim_buf_delete(buf, { force = true })
    end)
    return nil, problem
  end
  return { win = win, buf = buf }
end

---Rows and columns that an agent in this split has. A split that was closed meanwhile has a usual size.
---@param slot mado.Slot
---@return integer rows
---@return integer cols
function M.size(slot)
  if not vim.api.nvim_win_is_valid(slot.win) then
    return 24, 80
  end
  return vim.api.nvim_win_get_height(slot.win), vim.api.nvim_win_get_width(slot.win)
end

---Whether a window still shows a buffer.
function M.shows(win, buf)
  return vim.api.nvim_win_is_valid(win) and vim.api.nvim_win_get_buf(win) == buf
end

---Takes back a split whose agent did not start.
---@param slot mado.Slot
function M.discard(slot)
  if M.shows(slot.win, slot.buf) then
    M.leave(slot.win)
  end
end

-- An empty buffer: one that is there already, else a new one.
local function empty_buffer()
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    local lines = vim.api.nvim_buf_is_loaded(buf) and vim.api.nvim_buf_get_lines(buf, 0, 2, false)
    if
      vim.deep_equal(lines, { '' })
      and vim.api.nvim_buf_get_name(buf) == ''
      and vim.bo[buf].buflisted
      and vim.bo[buf].buftype == ''
      and not vim.bo[buf].modified
    then
      return buf
    end
  end
  return vim.api.nvim_create_buf(true, false)
end

---Closes a window, or empties it where it is the last one.
function M.leave(win)
  if not pcall(vim.api.nvim_win_close, win, false) then
    vim.api.nvim_win_set_buf(win, empty_buffer())
  end
end

return M
