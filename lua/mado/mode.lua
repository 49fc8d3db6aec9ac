-- Keeping a person in terminal mode while the terminal under the cursor is replaced by that of the agent's next
-- process. In terminal mode any key wipes out a terminal that has ended, and what follows runs as commands in the
-- window behind it.

local M = {}

-- How long keys are dropped after a terminal ended: an agent that is started again is there much sooner, and where
-- it stays ended the keys are Neovim's again.
M.HOLD_MS = 500

local namespace = vim.api.nvim_create_namespace('mado.mode')

-- The window whose keys are dropped, and a number that tells one hold from the next.
---@type integer?
local held
local count = 0

---Lets the keys go where they belong again.
function M.release()
  held = nil
  vim.on_key(nil, namespace)
end

-- What leaves terminal mode begins with it; whoever types it means the keys that follow for Neovim.
local LEAVE = vim.keycode('<C-\\>')

---The terminal of a buffer has ended.
---@param buf integer
function M.ended(buf)
  local win = vim.api.nvim_get_current_win()
  if vim.api.nvim_get_mode().mode ~= 't' or vim.api.nvim_win_get_buf(win) ~= buf then
    return
  end
  -- A dropped key is a key too for a terminal that has ended, so the mode is left for a moment.
  vim.cmd.stopinsert()
  held, count = win, count + 1
  local this = count
  vim.on_key(function(_, typed)
    -- Only what a person types, and only there.
    if not typed or typed == '' or vim.api.nvim_get_current_win() ~= held then
      return
    elseif vim.startswith(typed, LEAVE) then
      return M.release()
    end
    return ''
  end, namespace)
  vim.defer_fn(function()
    if count == this then
      M.release()
    end
  end, M.HOLD_MS)
end

---Whether a person is in terminal mode in a window, or was when its terminal ended a moment ago.
---@param win integer
---@return boolean
function M.is_terminal(win)
  return held == win
    or vim.api.nvim_get_mode().mode == 't' and vim.api.nvim_get_current_win() == win
end

---The window has got another terminal, and the person stays in terminal mode.
---@param win integer
---@param buf integer
function M.stay(win, buf)
  local function enter()
    M.release()
    if vim.api.nvim_get_current_win() == win and vim.api.nvim_win_get_buf(win) == buf then
      vim.cmd.startinsert()
    end
  end
  if vim.api.nvim_get_mode().mode ~= 't' then
    return enter()
  end
  -- Neovim leaves the mode after the change, at its next look, and takes back what was asked for before; so it is
  -- asked for once that has happened.
  local id = vim.api.nvim_create_autocmd('ModeChanged', {
    pattern = 't:*',
    once = true,
    desc = 'mado: stay in terminal mode',
    callback = vim.schedule_wrap(enter),
  })
  vim.defer_fn(function()
    pcall(vim.api.nvim_del_autocmd, id)
  end, M.HOLD_MS)
end

return M
