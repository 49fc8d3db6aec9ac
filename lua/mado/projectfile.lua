-- `.mado/routes.json`: what a project keeps of its agents and routes. It is read only when the user asks for it and
-- Neovim says that it is trusted; a file that comes with a clone starts nothing by itself.

local M = {}

local err = require('mado.err')
local ask = require('mado.resolve').ask

---@param project string
---@return string
function M.path(project)
  return vim.fs.joinpath(project, '.mado', 'routes.json')
end

-- What was last loaded or written here, by path.
---@type table<string, string>
local known = {}

---@type table<string, uv.uv_fs_event_t>
local watched = {}

local function content_of(path)
  local file = io.open(path, 'rb')
  local text = file and file:read('*a')
  if file then
    file:close()
  end
  return text
end

-- Says that the file has changed outside of this Neovim. Reading it would ask for trust, which only a command may.
local function watch(path)
  if watched[path] then
    return
  end
  local event = vim.uv.new_fs_event()
  if not event then
    return
  end
  local due = false
  local ok = event:start(
    vim.fs.dirname(path),
    {},
    vim.schedule_wrap(function(_, name)
      if due or (name and name ~= 'routes.json') then
        return
      end
      due = true
      -- A file is written in more than one step.
      vim.defer_fn(function()
        due = false
        local text = content_of(path)
        if text and text ~= known[path] then
          known[path] = text
          local said = 'mado: .mado/routes.json has changed (:Mado load takes it over)'
          require('mado.notify').background(said, vim.log.levels.INFO, 'projectfile')
        end
      end, 100)
    end)
  )
  if ok then
    watched[path] = event
  else
    event:close()
  end
end

-- Trust is asked for by Neovim itself, and remembered for this very content.
---@return string? text
---@return mado.Error? problem
local function read(path)
  if vim.fn.filereadable(path) == 0 then
    local text = ('there is no %s'):format(vim.fn.fnamemodify(path, ':~:.'))
    return nil, err.new('no_project_file', text, ':Mado save writes one')
  end
  local ok, text = pcall(vim.secure.read, path)
  if not ok then
    local why = tostring(text):gsub('^.-:%d+: ', '')
    return nil, err.new('not_readable', ('%s cannot be read: %s'):format(path, why), '')
  elseif not text then
    local said = ('%s is not trusted, so nothing of it was done'):format(
      vim.fn.fnamemodify(path, ':~:.')
    )
    return nil, err.new('not_trusted', said, 'look at it, then answer "allow", or :trust it')
  end
  return text
end

local function names(routes)
  local out = {}
  for i, route in ipairs(routes) do
    out[i] = require('mado.state').route_name(route)
  end
  return table.concat(out, ', ')
end

---What was done, in one sentence.
---@param reply mado.LoadReply
---@param opened string[]
function M.summary(reply, opened)
  local parts = {}
  local function say(list, what)
    if list ~= '' then
      parts[#parts + 1] = ('%s %s'):format(what, list)
    end
  end
  say(table.concat(opened, ', '), 'started')
  say(names(reply.made), 'connected')
  say(names(reply.changed), 'changed')
  say(table.concat(reply.removed, ', '), 'removed')
  return #parts > 0 and table.concat(parts, '; ') or 'everything is as the file says already'
end

-- Starts the agents that do not run, one after the other, then goes on.
local function open_missing(project, missing, opened, cb, go_on)
  local order = vim.tbl_keys(missing)
  table.sort(order)
  local function next_one(i)
    local name = order[i]
    if not name then
      return go_on()
    end
    local agent = missing[name]
    local cwd = agent.cwd and vim.fs.joinpath(project, agent.cwd) or project
    local ok, problem = require('mado.verbs').open({
      profile = agent.profile ~= '' and agent.profile or nil,
      name = name,
      cwd = cwd,
      args = agent.args,
    }, function(_, failed)
      if failed then
        return cb(nil, failed)
      end
      opened[#opened + 1] = name
      next_one(i + 1)
    end)
    if not ok then
      cb(nil, problem)
    end
  end
  next_one(1)
end

---Takes the file over: starts what does not run, makes, changes and removes routes.
---@param project string
---@param cb fun(said: string?, problem: mado.Error?)
function M.load(project, cb)
  local path = M.path(project)
  local text, problem = read(path)
  if not text then
    return cb(nil, problem)
  end
  known[path] = text
  watch(path)
  local opened = {}
  local function once_more(left)
    local params = { path = '.mado/routes.json', text = text }
    params.provider = require('mado.config').get().provider
    params.providers = require('mado.providers').sent()
    ask(project, 'load', params, function(reply, failed)
      if failed then
        return cb(nil, failed)
      elseif vim.tbl_isempty(reply.missing) then
        return cb(M.summary(reply, opened))
      elseif left == 0 then
        local name = next(reply.missing)
        return cb(nil, err.new('not_started', ('%s ended at once'):format(name), ':Mado agents'))
      end
      open_missing(project, reply.missing, opened, cb, function()
        once_more(left - 1)
      end)
    end)
  end
  require('mado.rpc').connect(project, { start = true }, function(no_host)
    if no_host then
      return cb(nil, no_host)
    end
    once_more(1)
  end)
end

-- Remembers that the user trusts what was just written in this Neovim.
local function trust(path)
  local buf = vim.fn.bufadd(path)
  vim.fn.bufload(buf)
  if not vim.bo[buf].modified then
    vim.api.nvim_buf_call(buf, function()
      vim.cmd('silent! checktime')
      vim.cmd('silent! edit')
    end)
    pcall(vim.secure.trust, { action = 'allow', bufnr = buf })
  end
end

-- Whole or not at all.
local function write(path, text)
  vim.fn.mkdir(vim.fs.dirname(path), 'p')
  local temp = path .. '.new'
  local file, why = io.open(temp, 'wb')
  if not file then
    return why
  end
  local ok, failed = file:write(text)
  local closed, late = file:close()
  if not ok or not closed then
    os.remove(temp)
    return failed or late
  end
  local renamed, not_renamed = vim.uv.fs_rename(temp, path)
  return not renamed and not_renamed or nil
end

---Writes the project's agents and routes.
---@param project string
---@param force boolean?
---@param cb fun(said: string?, problem: mado.Error?)
function M.save(project, force, cb)
  local path = M.path(project)
  ask(project, 'save', {}, function(reply, failed)
    if failed then
      return cb(nil, failed)
    end
    local there = content_of(path)
    if there == reply.text then
      known[path] = there
      return cb('.mado/routes.json holds this already')
    elseif there and there ~= known[path] and not force then
      local text = '.mado/routes.json holds something else'
      return cb(nil, err.new('file_exists', text, ':Mado save! overwrites it'))
    end
    known[path] = reply.text
    local why = write(path, reply.text)
    if why then
      return cb(nil, err.new('not_written', ('%s cannot be written: %s'):format(path, why), ''))
    end
    trust(path)
    local text = '.mado/routes.json holds %d %s and %d %s now'
    cb(
      text:format(
        reply.agents,
        reply.agents == 1 and 'agent' or 'agents',
        reply.routes,
        reply.routes == 1 and 'route' or 'routes'
      )
    )
  end)
end

vim.api.nvim_create_autocmd('BufWritePost', {
  group = vim.api.nvim_create_augroup('mado.projectfile', {}),
  pattern = '*/.mado/routes.json',
  desc = 'mado: take over a project file that was loaded before and is written here',
  -- Only then does the buffer count as written, which Neovim wants before it trusts it.
  callback = vim.schedule_wrap(function(args)
    local path = vim.fs.normalize(vim.uv.fs_realpath(args.match) or args.match)
    if not known[path] or known[path] == content_of(path) then
      return
    end
    -- What was loaded by the user and is changed by the user needs no question.
    -- Neovim takes its hash from the buffer, which does not know that writing has added the last line's end.
    if vim.bo[args.buf].fixendofline then
      vim.bo[args.buf].endofline = true
    end
    pcall(vim.secure.trust, { action = 'allow', bufnr = args.buf })
    M.load(vim.fs.dirname(vim.fs.dirname(path)), function(said, problem)
      if problem then
        require('mado.notify').error(problem)
      else
        require('mado.notify').info(said)
      end
    end)
  end),
})

return M
