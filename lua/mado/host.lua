-- The host as a program: where the binary is, where its sockets are, how it is started.

local M = {}

local err = require('mado.err')

-- How long a command of the program may take, milliseconds. The program gives a starting host 20 s itself.
local RUN_MS = 30000

local root = vim.fs.dirname(
  vim.fs.dirname(vim.fs.dirname(vim.fs.normalize(debug.getinfo(1, 'S').source:sub(2))))
)

---The plugin's own folder.
function M.root()
  return vim.uv.fs_realpath(root) or root
end

local function executable(path)
  return vim.fn.executable(path) == 1
end

---The `mado` program, with where it was found.
---@return { path: string, from: string }?
---@return mado.Error? problem
function M.find()
  local configured = require('mado.config').get().bin
  if configured then
    local path = vim.fn.expand(configured)
    if executable(path) then
      return { path = path, from = 'setup{ bin = … }' }
    end
    local text = 'setup{ bin = "%s" } names no program that can be run'
    return nil, err.new('no_program', text:format(configured), 'correct it, or leave it out')
  end
  local env = vim.env.MADO_BIN
  if env and env ~= '' then
    if executable(env) then
      return { path = env, from = '$MADO_BIN' }
    end
    local text = '$MADO_BIN is "%s", which is no program that can be run'
    return nil, err.new('no_program', text:format(env), 'correct it, or unset it')
  end
  for _, kind in ipairs({ 'release', 'debug' }) do
    local path = vim.fs.joinpath(M.root(), 'target', kind, 'mado')
    if executable(path) then
      return { path = path, from = 'target/' .. kind }
    end
  end
  local path = vim.fn.exepath('mado')
  if path ~= '' then
    return { path = path, from = '$PATH' }
  end
  local text = 'the program mado was found neither in %s/target nor on $PATH'
  local remedy = 'run `cargo build --release` in %s, or name it in setup{ bin = … }'
  return nil, err.new('no_program', text:format(M.root()), remedy:format(M.root()))
end

local function set(name)
  local value = vim.env[name]
  return value and value ~= '' and value or nil
end

-- One of mado's folders, by the rules of the host.
---@param own string the variable that names it
---@param below string its name below `MADO_HOME`
---@param xdg string
---@param default string below the home folder
local function folder(own, below, xdg, default)
  if set(own) then
    return set(own)
  elseif set('MADO_HOME') then
    return vim.fs.joinpath(set('MADO_HOME'), below)
  end
  local base = set(xdg)
  if base and base:sub(1, 1) == '/' then
    return vim.fs.joinpath(base, 'mado')
  end
  return set('HOME') and vim.fs.joinpath(set('HOME'), default)
end

---The folder that holds `host.json`.
---@return string?
function M.state_dir()
  return folder('MADO_STATE_DIR', 'state', 'XDG_STATE_HOME', '.local/state/mado')
end

---The folder that holds a user's profiles.
---@return string?
function M.config_dir()
  return folder('MADO_CONFIG', 'config', 'XDG_CONFIG_HOME', '.config/mado')
end

---What the running host says of itself in its state folder. A host that was killed leaves it behind, so it is
---a place to try, not a proof of life.
---@return { pid: integer, version: string, protocol: integer, runtime: string }?
function M.record()
  local dir = M.state_dir()
  local file = dir and io.open(vim.fs.joinpath(dir, 'host.json'), 'r')
  if not file then
    return nil
  end
  local text = file:read('*a')
  file:close()
  local ok, record = pcall(vim.json.decode, text)
  if ok and type(record) == 'table' and type(record.runtime) == 'string' then
    return record
  end
end

---When the running host began, in milliseconds since the epoch: it writes its record once, at its start.
---@return integer?
function M.began()
  local dir = M.state_dir()
  local stat = dir and vim.uv.fs_stat(vim.fs.joinpath(dir, 'host.json'))
  return stat and stat.mtime.sec * 1000 + math.floor(stat.mtime.nsec / 1e6)
end

---The socket for editors, if there may be a host behind it.
---@return string?
function M.socket()
  local record = M.record()
  local path = record and vim.fs.joinpath(record.runtime, 'editor.sock')
  if path and vim.uv.fs_stat(path) then
    return path
  end
end

---Starts a host without waiting for it, and calls back when it serves or cannot.
---@param cb fun(problem: mado.Error?)
function M.start(cb)
  M.run({ 'serve' }, function(result, problem)
    if problem then
      return cb(problem)
    elseif result.code == 0 then
      return cb()
    end
    -- Another editor may have been faster; whether its host answers is seen by talking to it.
    local said = vim.trim(result.stderr or ''):gsub('^mado: ', ''):gsub('%s*\n%s*', '; ')
    if said:find('already runs', 1, true) then
      return cb()
    elseif said == '' then
      said = ('`mado serve` ended with code %d and no message'):format(result.code)
    end
    cb(err.new('no_start', 'the host did not start: ' .. said))
  end)
end

---Runs the program's own command, for what must work whatever the host speaks.
---@param args string[]
---@param cb fun(result: vim.SystemCompleted?, problem: mado.Error?)
function M.run(args, cb)
  local bin, problem = M.find()
  if not bin then
    return cb(nil, problem)
  end
  local command = vim.list_extend({ bin.path }, args)
  local ok, why = pcall(
    vim.system,
    command,
    { text = true, stdin = false, timeout = RUN_MS },
    vim.schedule_wrap(cb)
  )
  if not ok then
    cb(nil, err.new('no_start', ('%s could not be run: %s'):format(bin.path, why)))
  end
end

return M
