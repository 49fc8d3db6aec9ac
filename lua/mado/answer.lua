-- `mado://answer/{agent}`: an agent's last answer as markdown, in a buffer and in a register.

local M = {}

local function buffer(name)
  local full = 'mado://answer/' .. name
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_get_name(buf) == full then
      return buf
    end
  end
  local buf = vim.api.nvim_create_buf(true, true)
  vim.api.nvim_buf_set_name(buf, full)
  return buf
end

---Puts an answer into its buffer.
---@param reply mado.AnswerReply
---@param buf? integer
---@return integer buf
function M.fill(reply, buf)
  buf = buf or buffer(reply.agent)
  if not vim.api.nvim_buf_is_loaded(buf) then
    vim.fn.bufload(buf)
  end
  vim.bo[buf].buftype = 'nofile'
  vim.bo[buf].bufhidden = 'hide'
  vim.bo[buf].swapfile = false
  vim.bo[buf].modifiable = true
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, vim.split(reply.text, '\n'))
  vim.bo[buf].modified = false
  vim.bo[buf].filetype = 'markdown'
  vim.b[buf].mado_turn = reply.turn
  return buf
end

---Shows an answer and puts it into the configured register.
---@param reply mado.AnswerReply
---@return mado.Error? problem
function M.show(reply)
  local register = require('mado.config').get().register
  if register ~= '' then
    vim.fn.setreg(register, reply.text)
  end
  local buf = M.fill(reply)
  local split = require('mado.split')
  local win, problem = vim.fn.win_findbuf(buf)[1], split.locked()
  if win and not problem then
    vim.api.nvim_set_current_win(win)
  elseif not problem then
    win, problem = split.open(buf, { split = 'below' })
  end
  if problem then
    return problem
  end
  vim.api.nvim_win_set_cursor(win, { 1, 0 })
end

return M
