-- What a user may configure: the defaults, and a check that names the key that is wrong.

local M = {}

---@class mado.Config
M.defaults = {
  ---Path of the `mado` program. Without it: `$MADO_BIN`, this plugin's target/release, target/debug, `$PATH`.
  ---@type string?
  bin = nil,
  ---The profile that `:Mado open` starts when none is named.
  profile = 'claude',
  ---Where `:Mado open` puts the split.
  ---@type 'right'|'left'|'above'|'below'
  split = 'right',
  ---Size of the split as a share of the window that it divides, between 0 and 1.
  size = 0.5,
  ---Enter terminal mode when a command moves the cursor into an agent.
  insert = true,
  ---Say at the start what already runs in this project.
  greet = true,
  ---Show notifications of agents that need a person and of routes that stopped.
  notify = true,
  ---The register that `:Mado answer` fills; an empty string fills none.
  register = '"',
  log = {
    ---How many hops the log holds.
    limit = 200,
    ---Height of the quickfix window in rows.
    height = 10,
  },
  ---Options of every route made from this editor; `:Mado connect key=value` overrides them.
  ---@type mado.RouteOptions
  route = {},
  ---Profiles that are added, or merged over the built-in ones of the same name.
  ---@type table<string, table>
  profiles = {},
  ---Language models for `ai-routing` and `summary`, by name.
  ---@type table<string, mado.Provider>
  providers = {},
  ---The one that is asked where a route names none.
  ---@type string?
  provider = nil,
  ---Instructions for `ai-routing` and `summary`, by transform, where a route has none.
  ---@type table<string, string>
  templates = {},
  ---Added to the environment of every agent that is opened here.
  ---@type table<string, string>
  env = {},
}

-- Keys that may be absent from the defaults, with their type.
local optional = { bin = 'string', provider = 'string' }

-- Options whose keys are free or checked elsewhere.
local open_tables =
  { profiles = 'table', env = 'string', providers = 'table', templates = 'string' }

local splits = { right = true, left = true, above = true, below = true }

---@param name string the dotted name of the option, for messages
local function wrong(name, want, value)
  local got = type(value) == 'table' and 'a table'
    or ('%s (%s)'):format(vim.inspect(value), type(value))
  return ('setup: %s must be %s, not %s'):format(name, want, got)
end

local check_table

local function check_value(name, default, value)
  local want = type(default)
  if type(value) ~= want then
    return wrong(name, 'a ' .. want, value)
  end
  if want == 'table' then
    return check_table(name .. '.', default, value)
  end
end

---@return string? problem
check_table = function(prefix, defaults, given)
  for _, key in ipairs(vim.fn.sort(vim.tbl_map(tostring, vim.tbl_keys(given)))) do
    local value = given[key]
    local name = prefix .. key
    local problem
    if value == nil then
      problem = ('setup: %s must have named keys only, not %s'):format(
        prefix == '' and 'the table' or prefix:sub(1, -2),
        key
      )
    elseif prefix == '' and key == 'route' then
      problem = M.check_route(value)
    elseif prefix == '' and open_tables[key] then
      problem = type(value) ~= 'table' and wrong(name, 'a table', value) or nil
      for sub, v in pairs(problem and {} or value) do
        if type(sub) ~= 'string' then
          problem = ('setup: %s must have names as keys, not %s'):format(name, vim.inspect(sub))
        elseif type(v) ~= open_tables[key] then
          problem = wrong(name .. '.' .. sub, 'a ' .. open_tables[key], v)
        elseif key == 'providers' then
          problem = require('mado.providers').check(sub, v)
        elseif key == 'templates' then
          local models = require('mado.options').models
          if not vim.list_contains(models, sub) then
            local unknown = require('mado.parse').unknown
            problem = unknown('setup: unknown key', 'templates.' .. sub, models, 'templates.')
          end
        end
        if problem then
          break
        end
      end
    elseif defaults[key] ~= nil then
      problem = check_value(name, defaults[key], value)
    elseif prefix == '' and optional[key] then
      problem = type(value) ~= optional[key] and wrong(name, 'a ' .. optional[key], value) or nil
    else
      local known = vim.tbl_keys(defaults)
      if prefix == '' then
        vim.list_extend(known, vim.tbl_keys(optional))
      end
      problem = require('mado.parse').unknown('setup: unknown key', name, known, prefix)
    end
    if problem then
      return problem
    end
  end
end

---@return string? problem
function M.check_route(route)
  if type(route) ~= 'table' then
    return wrong('route', 'a table', route)
  end
  local options = require('mado.options')
  for key, value in pairs(route) do
    local _, problem = options.check(tostring(key), value)
    if problem then
      return 'setup: route: ' .. problem
    end
  end
end

---@return string? problem
local function check_ranges(c)
  if not splits[c.split] then
    return wrong('split', 'right, left, above or below', c.split)
  elseif not (c.size > 0 and c.size < 1) then
    return wrong('size', 'a number between 0 and 1', c.size)
  end
  for key, most in pairs({ limit = 10000, height = 1000 }) do
    local value = c.log[key]
    if not (value >= 1 and value <= most and value == math.floor(value)) then
      return wrong('log.' .. key, ('a whole number from 1 to %d'):format(most), value)
    end
  end
  if not c.register:match('^[%w"*+_%-]?$') then
    return wrong('register', 'one register name or empty', c.register)
  end
end

local current

---@return mado.Config
function M.get()
  if not current then
    current = vim.deepcopy(M.defaults)
  end
  return current
end

---Merges `given` over the defaults. A mistake leaves the previous configuration as it was.
---@return true? ok
---@return string? problem
function M.set(given)
  if given ~= nil and type(given) ~= 'table' then
    return nil, wrong('the argument', 'a table', given)
  end
  local problem = check_table('', M.defaults, given or {})
  if problem then
    return nil, problem
  end
  local merged = vim.tbl_deep_extend('force', vim.deepcopy(M.defaults), given or {})
  problem = check_ranges(merged)
  if problem then
    return nil, problem
  end
  local route = {}
  local options = require('mado.options')
  for key, value in pairs(merged.route) do
    local o = options.check(key, value)
    route[o.key] = o.value
  end
  merged.route = route
  current = merged
  return true
end

return M
