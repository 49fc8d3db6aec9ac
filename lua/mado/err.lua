-- Errors as values: `{ code, message, remedy }`, the same shape that the host sends.

local M = {}

---A message with what to do about it, in one pair of parentheses at most.
---@param message string
---@param remedy? string
function M.join(message, remedy)
  if not remedy or remedy == '' then
    return message
  elseif message:sub(-1) == ')' or remedy:find('(', 1, true) then
    return ('%s; %s'):format(message, remedy)
  end
  return ('%s (%s)'):format(message, remedy)
end

local mt = {
  __tostring = function(e)
    return M.join(e.message, e.remedy)
  end,
}

---@param code string stable, in snake_case
---@param message string one sentence that names the thing
---@param remedy? string what to do about it
---@return mado.Error
function M.new(code, message, remedy)
  return setmetatable({ code = code, message = message, remedy = remedy or '' }, mt)
end

---Makes an error of what the host sent, whatever it sent.
---@return mado.Error
function M.from(value)
  if type(value) ~= 'table' then
    return M.new('host_error', tostring(value))
  end
  return M.new(value.code or 'host_error', value.message or vim.inspect(value), value.remedy)
end

return M
