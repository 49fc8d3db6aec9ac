-- `:checkhealth mado`: everything that must be there, each with what to do where it is not.

local M = {}

local health = vim.health

-- This report is asked for and read at once, so it is the one place that waits for a program; not for long.
local WAIT_MS = 5000

local function run(bin, ...)
  local ok, result = pcall(function(...)
    return vim.system({ bin.path, ... }, { text = true, stdin = false }):wait(WAIT_MS)
  end, ...)
  if not ok then
    return nil, tostring(result)
  elseif result.code ~= 0 then
    return nil,
      vim.trim(result.stderr ~= '' and result.stderr or ('exit code %d'):format(result.code))
  end
  return vim.trim(result.stdout)
end

local function neovim()
  local v = vim.version()
  local text = ('Neovim %d.%d.%d'):format(v.major, v.minor, v.patch)
  if vim.fn.has('nvim-0.11') == 1 then
    health.ok(text)
    return true
  end
  health.error(text .. ' is too old', { 'update to Neovim 0.11 or newer' })
  return false
end

---@return { path: string, from: string }?
local function program()
  local bin, problem = require('mado.host').find()
  if not bin then
    health.error(problem.message, { problem.remedy })
    return nil
  end
  local version, failed = run(bin, '--version')
  if not version then
    health.error(
      ('%s (from %s) does not run: %s'):format(bin.path, bin.from, failed),
      { 'build it again' }
    )
    return nil
  end
  health.ok(('program: %s (from %s), %s'):format(bin.path, bin.from, version))
  local plugin = require('mado.version')
  if not version:find(plugin, 1, true) then
    health.warn(
      ('the plugin is %s, the program %s'):format(plugin, version),
      { ('run `cargo build --release` in %s'):format(require('mado.host').root()) }
    )
  end
  return bin
end

local function host()
  local h = require('mado.host')
  local socket, record = h.socket(), h.record()
  if not socket then
    health.info(
      ('no host is running (its state folder is %s); :Mado open starts one'):format(
        h.state_dir() or '?'
      )
    )
    return
  end
  local text = 'socket: %s (host version %s, pid %s, protocol %s)'
  text = text:format(socket, record.version, record.pid, record.protocol)
  if record.protocol == require('mado.rpc').PROTOCOL then
    health.ok(text)
  else
    health.error(
      ('%s, but this plugin speaks protocol %d'):format(text, require('mado.rpc').PROTOCOL),
      { 'bring plugin and program to one version, then :Mado host restart, which ends the agents' }
    )
  end
end

local function profile(p)
  local text = ('%s: %s'):format(p.name, p.path or p.command or '?')
  if p.version and p.version ~= '' then
    text = ('%s, version %s'):format(text, p.version)
  end
  if p.problem and p.problem ~= '' then
    health.error(('%s: %s'):format(p.name, p.problem), p.remedy and { p.remedy } or nil)
  elseif p.found then
    if p.verified == false then
      health.warn(text .. ', which this profile was not verified with')
    else
      health.ok(text)
    end
  else
    local install = p.install and p.install ~= '' and (': ' .. p.install) or ''
    health.info(('%s is not installed, only needed to open one%s'):format(text, install))
  end
end

-- Reports the profiles; gives the providers of the host's own configuration.
---@return table[]?
local function profiles(bin)
  local providers
  local out, failed = run(bin, 'health', '--json')
  if not out then
    health.error(('%s health --json failed: %s'):format(bin.path, failed))
    return
  end
  for _, line in ipairs(vim.split(out, '\n', { trimempty = true })) do
    local ok, entry = pcall(vim.json.decode, line, { luanil = { object = true, array = true } })
    if not ok or type(entry) ~= 'table' then
      health.error('mado health --json printed a line that is no JSON: ' .. line)
    elseif entry.profiles then
      providers = entry.providers
      for _, p in ipairs(entry.profiles) do
        profile(p)
      end
    elseif entry.name then
      profile(entry)
    end
  end
  return providers
end

-- What each provider is and whether its key is there, never the key.
local function providers(of_host)
  local config = require('mado.config').get()
  local here = require('mado.providers')
  local none = true
  for _, name in ipairs(here.names()) do
    none = false
    local text, advice = here.report(name, config.providers[name])
    if name == config.provider then
      text = text .. ' (the default)'
    end
    if advice then
      health.warn(text, advice)
    else
      health.ok(text)
    end
  end
  for _, entry in ipairs(of_host or {}) do
    none = false
    if entry.problem then
      health.warn(entry.problem, entry.remedy ~= '' and { entry.remedy } or nil)
    elseif not config.providers[entry.name] then
      health.ok(entry.text)
    end
  end
  if none then
    health.info('none configured; only needed for ai-routing and summary (:help mado-providers)')
  end
end

function M.check()
  health.start('mado: editor and program')
  if not neovim() then
    return
  end
  local bin = program()
  host()
  health.start('mado: agent programs')
  local of_host
  if bin then
    of_host = profiles(bin)
  else
    health.info('not checked: the program is missing')
  end
  health.start('mado: AI provider')
  providers(of_host)
end

return M
