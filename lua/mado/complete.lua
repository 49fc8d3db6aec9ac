-- Completion of commands, from what is known already: it never asks the host, so it never waits.

local M = {}

-- Those that come with mado.
local profiles = { 'claude', 'codex', 'demo', 'opencode', 'shell' }

local function commands()
  return require('mado.commands')
end

-- The numbers of the hops that have not been submitted.
local function waiting_hops()
  local state, project = require('mado.state'), require('mado.project').current()
  local ids = {}
  for _, hop in ipairs(state.hops(project)) do
    if hop.state == 'held' or hop.state == 'queued' or hop.state == 'typing' then
      ids[#ids + 1] = tostring(hop.id)
    end
  end
  return ids
end

local kinds = {
  agent = function()
    local state, project = require('mado.state'), require('mado.project').current()
    return vim.tbl_map(function(info)
      return info.name
    end, state.agents(project))
  end,
  route = function()
    local state, project = require('mado.state'), require('mado.project').current()
    local words, count = {}, {}
    local routes = state.routes(project)
    for _, route in ipairs(routes) do
      local name = state.route_name(route)
      count[name] = (count[name] or 0) + 1
    end
    for _, route in ipairs(routes) do
      local name = state.route_name(route)
      -- Two routes between the same agents are told apart by their ids.
      words[#words + 1] = count[name] == 1 and name or tostring(route.id)
    end
    return words
  end,
  profile = function()
    local names = vim.tbl_extend('force', {}, require('mado.config').get().profiles)
    for _, name in ipairs(profiles) do
      names[name] = true
    end
    local config = require('mado.host').config_dir()
    for name in vim.fs.dir(config and vim.fs.joinpath(config, 'profiles') or '') do
      -- A name that begins with a dot is none of a profile.
      local profile = name:match('^([^.].*)%.toml$')
      if profile then
        names[profile] = true
      end
    end
    local words = vim.tbl_keys(names)
    table.sort(words)
    return words
  end,
  trigger = function()
    return require('mado.options').triggers
  end,
  transform = function()
    return require('mado.options').transforms
  end,
  hop = function()
    return waiting_hops()
  end,
  host = function()
    return { 'status', 'restart', 'stop' }
  end,
}

-- Values of `key=` words that are not route options.
local function values(key, lead)
  if key == 'split' then
    return { 'right', 'left', 'above', 'below' }
  elseif key == 'cwd' then
    return vim.fn.getcompletion(lead, 'dir')
  elseif key == 'provider' then
    return require('mado.providers').names()
  elseif key == 'hop' then
    return waiting_hops()
  end
  return require('mado.options').values(key)
end

local function starting_with(words, lead)
  return vim.tbl_filter(function(word)
    return vim.startswith(word, lead)
  end, words)
end

-- Completes one word of a subcommand; `before` are the words that precede it.
local function word(name, before, lead)
  local command = commands().table[name]
  if not command then
    return {}
  end
  local key, value = lead:match('^([%w_]+)=(.*)$')
  if key then
    if not command.keys then
      return {}
    end
    return vim.tbl_map(function(v)
      return key .. '=' .. v
    end, starting_with(values(key, value), value))
  end
  local used, position = {}, 1
  for _, text in ipairs(before) do
    local taken = text:match('^([%w_]+)=')
    if text == '--' then
      return {}
    elseif taken and command.keys then
      used[taken] = true
    else
      position = position + 1
    end
  end
  local found = {}
  local kind = command.args[position]
  for _, candidate in ipairs(kind and kinds[kind]() or {}) do
    -- The second agent of a route is never the first.
    if not (kind == 'agent' and vim.list_contains(before, candidate)) then
      found[#found + 1] = candidate
    end
  end
  for _, k in ipairs(command.keys or {}) do
    if not used[k] then
      found[#found + 1] = k .. '='
    end
  end
  return starting_with(found, lead)
end

-- The words between the command's name and the word under completion.
local function before_cursor(line, pos, lead)
  local text = line:sub(1, pos - #lead)
  local _, last = text:find('Mado%a*!?')
  return vim.split(vim.trim(text:sub((last or 0) + 1)), '%s+', { trimempty = true })
end

---`:Mado {sub} …`
function M.mado(lead, line, pos)
  local before = before_cursor(line, pos, lead)
  if #before == 0 then
    return starting_with(commands().names(), lead)
  end
  local name = table.remove(before, 1):gsub('!$', '')
  return word(name, before, lead)
end

---`:Mado{Sub} …`
function M.sub(name, lead, line, pos)
  return word(name, before_cursor(line, pos, lead), lead)
end

return M
