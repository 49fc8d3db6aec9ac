-- The commands: what each takes, and how it shows what came of it. `plugin/mado.lua` holds the same names and
-- makes `:Mado {sub}` and `:Mado{Sub}` of them; a test holds the two equal.

local M = {}

local parse = require('mado.parse')

---@class mado.Invocation
---@field raw string what follows the subcommand
---@field words table[]
---@field bang boolean
---@field lines string[]? the lines of a range

---@class mado.Command
---@field usage string
---@field args string[] what completes each positional word
---@field keys? string[] the `key=` words it takes
---@field aliases? boolean it takes other spellings of its keys too
---@field rest_args? boolean words after `--` go to the program
---@field bang? boolean it takes a !
---@field run fun(c: mado.Invocation)

local function notify()
  return require('mado.notify')
end

local function verbs()
  return require('mado.verbs')
end

---Shows what a verb came to: its problem, else what `show` makes of the value.
local function done(show)
  return function(value, problem, kind)
    if problem then
      notify().error(problem)
    elseif kind == 'said' then
      notify().info(value)
    elseif show and value ~= nil then
      show(value)
    end
  end
end

---Calls a verb; what is wrong at once is shown at once.
local function call(verb, opts, show)
  local ok, problem = verbs()[verb](opts, done(show))
  if not ok and problem then
    notify().error(problem)
  end
end

---A mistake in the words: ends the command.
local function fail(command, text)
  error({ mado = require('mado.err').join(text, 'usage: :Mado ' .. command.usage) }, 0)
end

-- Splits words into positional ones and `key=value` ones.
---@param command mado.Command
---@param c mado.Invocation
---@param max integer how many positional words there may be
local function sort_words(command, c, max)
  local positional, options, after = {}, {}, nil
  for i, word in ipairs(c.words) do
    if after then
      after[#after + 1] = word.text
    elseif command.rest_args and word.text == '--' and not word.quoted then
      after = {}
    elseif word.key and word.key ~= '' and command.keys then
      if not vim.list_contains(command.keys, word.key) and not command.aliases then
        fail(command, parse.unknown('unknown option', word.key, command.keys))
      end
      options[word.key] = word.value
    elseif #positional < max then
      positional[#positional + 1] = word.text
    else
      fail(command, ('unexpected word %d "%s"'):format(i, word.text))
    end
  end
  return positional, options, after
end

-- What routes are, after a command that made or changed them.
local function say_routes(routes)
  local list, texts = require('mado.list'), {}
  for i, route in ipairs(routes) do
    texts[i] = ('%s: %s, %s, at most %d rounds'):format(
      require('mado.state').route_name(route),
      list.trigger(route),
      list.transform(route),
      route.max_rounds
    )
  end
  notify().info(table.concat(texts, '; '))
end

local function say_hop(hop)
  notify().hop(hop)
end

-- The number of a hop, as a person typed it.
local function hop_number(command, text)
  if text and not require('mado.resolve').is_id(text) then
    fail(command, ('hop must be a whole number from 1 on, not "%s"'):format(text))
  end
  return tonumber(text)
end

local function agent_command(verb, usage)
  return {
    usage = usage,
    args = { 'agent' },
    run = function(self, c)
      local words = sort_words(self, c, 1)
      call(verb, { agent = words[1] })
    end,
  }
end

local function route_command(verb, show)
  return {
    usage = verb .. ' [route]',
    args = { 'route' },
    run = function(self, c)
      local words = sort_words(self, c, 1)
      call(verb, { route = words[1] }, show)
    end,
  }
end

---A command of the form `{route} {kind} [free text]`.
local function change_command(verb, text_key, known)
  return {
    usage = ('%s {route} {type} [%s]'):format(verb, text_key),
    args = { 'route', verb },
    run = function(self, c)
      local route, kind = c.words[1], c.words[2]
      if not route or not kind then
        fail(self, ('%s needs a route and a type'):format(verb))
      elseif not vim.list_contains(known(), kind.text) then
        fail(self, parse.unknown('unknown ' .. verb, kind.text, known()))
      end
      local asked = verb == 'transform' and c.words[3]
      local provider = asked and asked.key == 'provider' and asked.value or nil
      local text = parse.rest(c.raw, c.words, provider and 4 or 3)
      call(verb, {
        route = route.text,
        [verb] = kind.text,
        provider = provider,
        [text_key] = text ~= '' and text or nil,
      }, say_routes)
    end,
  }
end

local function options_module()
  return require('mado.options')
end

---@type table<string, mado.Command>
M.table = {
  open = {
    usage = 'open [profile] [name=] [cwd=] [split=] [-- args]',
    args = { 'profile' },
    keys = { 'name', 'cwd', 'split' },
    rest_args = true,
    run = function(self, c)
      local words, o, args = sort_words(self, c, 1)
      call('open', { profile = words[1], name = o.name, cwd = o.cwd, split = o.split, args = args })
    end,
  },
  adopt = {
    usage = 'adopt [profile] [name=]',
    args = { 'profile' },
    keys = { 'name', 'profile' },
    run = function(self, c)
      local words, o = sort_words(self, c, 1)
      call('adopt', { profile = words[1] or o.profile, name = o.name }, function(info)
        local text = '%s (%s) is an agent now; :Mado agents says what it cannot offer'
        notify().info(text:format(info.name, info.profile))
      end)
    end,
  },
  attach = {
    usage = 'attach [agent] [split=]',
    args = { 'agent' },
    keys = { 'split' },
    run = function(self, c)
      local words, o = sort_words(self, c, 1)
      call('attach', { agent = words[1], split = o.split })
    end,
  },
  focus = agent_command('focus', 'focus [agent]'),
  hide = agent_command('hide', 'hide [agent]'),
  close = agent_command('close', 'close {agent}'),
  restart = agent_command('restart', 'restart {agent}'),
  rename = {
    usage = 'rename [agent] {name}',
    args = { 'agent' },
    run = function(self, c)
      local words = sort_words(self, c, 2)
      if #words == 0 then
        fail(self, 'rename needs a name')
      end
      call('rename', { agent = words[2] and words[1], name = words[2] or words[1] })
    end,
  },
  connect = {
    usage = 'connect[!] [source] [target] [key=value …]',
    args = { 'agent', 'agent' },
    keys = options_module().names(),
    aliases = true,
    bang = true,
    run = function(self, c)
      local words, o = sort_words(self, c, 2)
      local source, target = words[1], words[2]
      -- One name from inside an agent's window is where to, from elsewhere where from.
      if source and not target and vim.b.mado_agent and vim.b.mado_agent ~= source then
        source, target = nil, source
      end
      local given = vim.tbl_extend('force', o, { source = source, target = target, both = c.bang })
      call('connect', given, say_routes)
    end,
  },
  disconnect = route_command('disconnect'),
  trigger = change_command('trigger', 'pattern', function()
    return options_module().triggers
  end),
  transform = change_command('transform', 'template', function()
    return options_module().transforms
  end),
  pause = route_command('pause'),
  toggle = route_command('toggle'),
  resume = {
    usage = 'resume [route] [hop=N]',
    args = { 'route' },
    keys = { 'hop' },
    run = function(self, c)
      local words, o = sort_words(self, c, 1)
      call('resume', { route = words[1], hop = hop_number(self, o.hop) })
    end,
  },
  fire = route_command('fire', say_hop),
  preview = {
    usage = 'preview [route] [hop=N]',
    args = { 'route' },
    keys = { 'hop' },
    run = function(self, c)
      local words, o = sort_words(self, c, 1)
      call('preview', { route = words[1], hop = hop_number(self, o.hop) }, function(hop)
        if hop.state ~= 'queued' then
          say_hop(hop)
        end
      end)
    end,
  },
  drop = {
    usage = 'drop {hop}',
    args = { 'hop' },
    run = function(self, c)
      local words = sort_words(self, c, 1)
      if not words[1] then
        fail(self, 'drop needs the number of a hop')
      end
      call('drop', { hop = hop_number(self, words[1]) })
    end,
  },
  handoff = {
    usage = 'handoff [source] {target} [text]',
    args = { 'agent', 'agent' },
    run = function(self, c)
      if #c.words == 0 then
        fail(self, 'handoff needs a target')
      end
      local first, second = c.words[1].text, c.words[2] and c.words[2].text
      -- Inside an agent's window it is the source, unless two agents are named; elsewhere the source comes first.
      local state, project = require('mado.state'), require('mado.project').current()
      local two = second and (not vim.b.mado_agent or state.agent_named(project, second) ~= nil)
      local text = parse.rest(c.raw, c.words, two and 3 or 2)
      call('handoff', {
        source = two and first or nil,
        target = two and second or first,
        text = text ~= '' and text or nil,
      }, say_hop)
    end,
  },
  send = {
    usage = 'send {agent} {text}',
    args = { 'agent' },
    run = function(self, c)
      if #c.words == 0 then
        fail(self, 'send needs an agent')
      end
      local parts = {}
      local text = parse.rest(c.raw, c.words, 2)
      if text ~= '' then
        parts[1] = text
      end
      vim.list_extend(parts, c.lines or {})
      if #parts == 0 then
        fail(self, 'send needs a text or a range')
      end
      call('send', { agent = c.words[1].text, text = table.concat(parts, '\n') }, say_hop)
    end,
  },
  answer = {
    usage = 'answer [agent]',
    args = { 'agent' },
    run = function(self, c)
      local words = sort_words(self, c, 1)
      call('answer', { agent = words[1] }, function(reply)
        local problem = require('mado.answer').show(reply)
        if problem then
          notify().error(problem)
        end
      end)
    end,
  },
  agents = {
    usage = 'agents',
    args = {},
    run = function(self, c)
      sort_words(self, c, 0)
      call('agents', {}, function(list)
        require('mado.list').agents(list)
      end)
    end,
  },
  routes = {
    usage = 'routes',
    args = {},
    run = function(self, c)
      sort_words(self, c, 0)
      call('routes', {}, function(list)
        require('mado.list').routes(list)
      end)
    end,
  },
  queue = {
    usage = 'queue',
    args = {},
    run = function(self, c)
      sort_words(self, c, 0)
      call('queue', {}, function(list)
        require('mado.list').queue(list)
      end)
    end,
  },
  next = {
    usage = 'next',
    args = {},
    run = function(self, c)
      sort_words(self, c, 0)
      call('next', {})
    end,
  },
  load = {
    usage = 'load',
    args = {},
    run = function(self, c)
      sort_words(self, c, 0)
      call('load', {})
    end,
  },
  save = {
    usage = 'save[!]',
    args = {},
    bang = true,
    run = function(self, c)
      sort_words(self, c, 0)
      call('save', { force = c.bang })
    end,
  },
  log = route_command('log'),
  host = {
    usage = 'host[!] [status|restart|stop]',
    args = { 'host' },
    bang = true,
    run = function(self, c)
      local words = sort_words(self, c, 1)
      local action = words[1] or 'status'
      call('host', { action = action, force = c.bang }, function(value)
        if action == 'status' then
          require('mado.list').host(value)
        else
          notify().info(action == 'stop' and 'the host has ended' or 'the host was started again')
        end
      end)
    end,
  },
}

---@return string[] names, sorted
function M.names()
  local names = vim.tbl_keys(M.table)
  table.sort(names)
  return names
end

-- Runs a subcommand on the text after it.
local function run(name, raw, opts)
  require('mado.project').refresh()
  local ok, problem = pcall(function()
    local words, unfinished = parse.words(raw)
    if not words then
      error({ mado = unfinished }, 0)
    end
    local lines
    if (opts.range or 0) > 0 then
      lines = vim.api.nvim_buf_get_lines(0, opts.line1 - 1, opts.line2, false)
    end
    local command = M.table[name]
    if opts.bang and not command.bang then
      fail(command, name .. ' takes no !')
    end
    command.run(command, { raw = raw, words = words, bang = opts.bang or false, lines = lines })
  end)
  if ok then
    return
  elseif type(problem) == 'table' and problem.mado then
    notify().error(problem.mado)
  else
    error(problem, 0)
  end
end

---`:Mado{Sub} …`
function M.sub(name, opts)
  run(name, opts.args, opts)
end

---`:Mado {sub} …`
function M.mado(opts)
  local word, raw = opts.args:match('^%s*(%S*)%s*(.*)$')
  local name = word:gsub('!$', '')
  if name == '' then
    notify().error(('which subcommand? (%s)'):format(table.concat(M.names(), ', ')))
  elseif not M.table[name] then
    notify().error(parse.unknown('unknown subcommand', name, M.names()))
  else
    run(name, raw, {
      bang = opts.bang or vim.endswith(word, '!'),
      range = opts.range,
      line1 = opts.line1,
      line2 = opts.line2,
    })
  end
end

return M
