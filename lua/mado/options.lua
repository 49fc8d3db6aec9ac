-- The `key=value` options of a route: their names, values and the first check of them. The host has the last
-- word; what can be known to be wrong here is said here, before anything is started.

local M = {}

M.triggers = { 'on-idle', 'on-complete', 'on-keyword', 'always', 'on-turn' }
M.transforms = { 'prompt-wrap', 'full-output', 'raw', 'ai-routing', 'summary' }
-- Those of them that ask a language model.
M.models = { 'ai-routing', 'summary' }

local bool = { 'true', 'false' }

-- `values` complete a key, and are all there is unless the key is free text or a number.
local specs = {
  trigger = { one_of = M.triggers },
  pattern = { values = {} },
  transform = { one_of = M.transforms },
  template = { values = { '{output}', '{source}', '{round}', '{maxRounds}' } },
  provider = { values = {} },
  on_error = { one_of = { 'stop', 'prompt-wrap' } },
  task = { values = {} },
  dispatch = { one_of = { 'madoagent', 'legacy', 'shadow' } },
  max_rounds = { min = 1, max = 20, values = { '1', '5', '20' } },
  cooldown_ms = { min = 1000, max = 30000, values = { '1000', '3000', '30000' } },
  stop_keyword = { values = { 'LGTM' } },
  idle_ms = { min = 0, max = 600000, values = { '2000', '8000' } },
  deliver = { one_of = { 'lines', 'paste' } },
  confirm = { bool = true },
  route_detached = { bool = true },
  when = { values = {} },
  join = { one_of = { 'all', 'none' } },
  join_timeout_ms = { min = 1000, max = 86400000, values = { '60000', '600000' } },
  header = { bool = true },
  redact = { bool = true },
  chain_tokens = { min = 1, max = 1e12, values = { '100000' } },
  day_tokens = { min = 1, max = 1e12, values = { '1000000' } },
}

-- Spellings that are accepted beside the names above.
local aliases = {
  maxRounds = 'max_rounds',
  cooldownMs = 'cooldown_ms',
  stopKeyword = 'stop_keyword',
  onError = 'on_error',
}

---@return string[] names, sorted
function M.names()
  local names = vim.tbl_keys(specs)
  table.sort(names)
  return names
end

---@return string[] values that complete a key
function M.values(key)
  local spec = specs[aliases[key] or key]
  if not spec then
    return {}
  end
  return spec.one_of or (spec.bool and bool) or spec.values
end

---Checks one option given as text (from a command) or as a Lua value (from a function).
---@return { key: string, value: any }?
---@return string? problem
function M.check(key, value)
  local name = aliases[key] or key
  local spec = specs[name]
  local parse = require('mado.parse')
  if not spec then
    return nil, parse.unknown('unknown option', key, M.names())
  end
  if spec.one_of then
    if not vim.list_contains(spec.one_of, value) then
      return nil, parse.unknown(('unknown %s'):format(name), tostring(value), spec.one_of)
    end
  elseif spec.bool then
    if value == 'true' or value == 'false' then
      value = value == 'true'
    elseif type(value) ~= 'boolean' then
      return nil, ('%s must be true or false, not "%s"'):format(key, value)
    end
  elseif spec.min then
    local number = tonumber(value)
    if not number or number ~= math.floor(number) or number < spec.min or number > spec.max then
      local text = '%s must be a whole number from %d to %d, not "%s"'
      return nil, text:format(key, spec.min, spec.max, value)
    end
    value = number
  elseif type(value) ~= 'string' then
    return nil, ('%s must be text, not %s'):format(key, type(value))
  elseif value == '' then
    return nil, ('%s must not be empty'):format(key)
  end
  return { key = name, value = value }
end

return M
