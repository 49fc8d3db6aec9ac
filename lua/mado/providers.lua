-- Providers of language models, as a user configures them: their check, what goes with a route that asks one,
-- and whether the key is there. The host checks what it gets again; a key itself is never read here.

local M = {}

M.kinds = { 'anthropic', 'openai', 'command' }

---@class mado.Provider
---@field kind 'anthropic'|'openai'|'command'
---@field base_url? string
---@field model? string
---@field key_env? string the variable that holds the key
---@field key_command? string[] a program that prints the key
---@field command? string[] the program of the kind `command`
---@field max_tokens? integer
---@field timeout_ms? integer
---@field silence_ms? integer
---@field retries? integer
---@field headers? table<string, string>

local types = {
  kind = 'string',
  base_url = 'string',
  model = 'string',
  key_env = 'string',
  key_command = 'list',
  command = 'list',
  max_tokens = 'number',
  timeout_ms = 'number',
  silence_ms = 'number',
  retries = 'number',
  headers = 'texts',
}

-- What each type must be, for messages; and whether it is.
local shapes = {
  string = { 'a string' },
  number = { 'a whole number' },
  list = { "a list of strings such as { 'claude', '-p' }" },
  texts = { 'a table of strings' },
}

local function fits(shape, value)
  if shape == 'number' then
    return type(value) == 'number' and value >= 0 and value == math.floor(value)
  elseif shape == 'string' then
    return type(value) == 'string'
  elseif type(value) ~= 'table' or (shape == 'list' and not vim.islist(value)) then
    return false
  end
  for key, text in pairs(value) do
    if type(text) ~= 'string' or (shape == 'texts' and type(key) ~= 'string') then
      return false
    end
  end
  return true
end

-- The value is not repeated in messages: it may be a key in the wrong place.
local function wrong(name, shape, value)
  return ('setup: %s must be %s, not a %s'):format(name, shapes[shape][1], type(value))
end

---@param name string the provider's name
---@param given table
---@return string? problem
function M.check(name, given)
  local at = 'providers.' .. name
  local parse = require('mado.parse')
  for key, value in pairs(given) do
    local shape = types[key]
    if not shape then
      return parse.unknown(
        'setup: unknown key',
        at .. '.' .. tostring(key),
        vim.tbl_keys(types),
        at .. '.'
      )
    elseif not fits(shape, value) then
      return wrong(at .. '.' .. key, shape, value)
    end
  end
  if not given.kind then
    return ('setup: %s.kind is missing: %s'):format(at, table.concat(M.kinds, ', '))
  elseif not vim.list_contains(M.kinds, given.kind) then
    return parse.unknown(('setup: unknown %s.kind'):format(at), given.kind, M.kinds)
  elseif given.kind == 'command' then
    if not given.command or #given.command == 0 then
      return ("setup: %s.command is missing, for example { 'claude', '-p' }"):format(at)
    end
  elseif not given.model then
    return ('setup: %s.model is missing'):format(at)
  end
end

---The names of the providers that are configured here.
---@return string[]
function M.names()
  local names = vim.tbl_keys(require('mado.config').get().providers)
  table.sort(names)
  return names
end

---What the host is sent of providers: all, or the one that is named; nothing where there are none.
---@param name string?
---@return table<string, mado.Provider>?
function M.sent(name)
  local known = require('mado.config').get().providers
  if name and known[name] then
    known = { [name] = known[name] }
  end
  if vim.tbl_isempty(known) then
    return nil
  end
  return vim.tbl_map(function(provider)
    local sent = vim.deepcopy(provider)
    if sent.headers and vim.tbl_isempty(sent.headers) then
      sent.headers = nil
    end
    return sent
  end, known)
end

---Adds to a request for a route whom it may ask and with which instructions, where its transform asks a model.
---@param params table the request's own parameters, to which `providers` is added
---@param options table what is said of the route: transform, template, provider
function M.add(params, options)
  local asks = vim.list_contains(require('mado.options').models, options.transform)
  if not asks and not options.provider then
    return
  end
  local config = require('mado.config').get()
  if asks then
    options.provider = options.provider or config.provider
    options.template = options.template or config.templates[options.transform]
  end
  params.providers = M.sent(options.provider)
end

-- The variable that holds a provider's key; nothing where none is needed.
local function key_variable(provider)
  if provider.key_env then
    return provider.key_env
  elseif provider.key_command or provider.base_url then
    return nil
  end
  return ({ anthropic = 'ANTHROPIC_API_KEY', openai = 'OPENAI_API_KEY' })[provider.kind]
end

---What there is to say of a provider, without its key.
---@param name string
---@param provider mado.Provider
---@return string text
---@return string[]? advice where something is missing
function M.report(name, provider)
  local model = provider.model or (provider.command and provider.command[1]) or '?'
  local text = ('%s: %s, %s'):format(name, provider.kind, model)
  if provider.base_url then
    text = ('%s at %s'):format(text, provider.base_url)
  end
  if provider.kind == 'command' and vim.fn.executable(provider.command[1]) == 0 then
    return ('%s; the program %s is not found'):format(text, provider.command[1]),
      { 'install it, or name it by its path' }
  end
  local variable = key_variable(provider)
  if provider.key_command then
    return ('%s; its key comes from %s'):format(text, provider.key_command[1])
  elseif not variable then
    return text .. '; no key is needed'
  end
  local value = require('mado.config').get().env[variable] or vim.env[variable]
  if value and vim.trim(value) ~= '' then
    return ('%s; %s is set'):format(text, variable)
  end
  return ('%s; %s is not set'):format(text, variable),
    {
      ('set %s where you start Neovim, or name another source: key_env, key_command'):format(
        variable
      ),
    }
end

return M
