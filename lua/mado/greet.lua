-- One line at the start on what already runs in this project. No host is started for it, and where nothing of
-- this project runs the connection is closed again, so that an editor elsewhere keeps nothing alive.

local M = {}

-- A file that waits to be asked for. Whether it is trusted is asked when it is.
local function mention_file()
  local project = require('mado.project').current()
  if vim.uv.fs_stat(vim.fs.joinpath(project, '.mado', 'routes.json')) then
    local text =
      'mado: this project has .mado/routes.json (:Mado load starts its agents and routes)'
    require('mado.notify').background(text, vim.log.levels.INFO, 'projectfile')
  end
end

function M.greet()
  if not require('mado.config').get().greet then
    return
  end
  if not require('mado.host').socket() then
    return mention_file()
  end
  local rpc = require('mado.rpc')
  local project = require('mado.project').current()
  if rpc.session(project) then
    return
  end
  rpc.connect(project, {}, function(problem)
    local notify = require('mado.notify')
    if problem then
      -- A host that just ended is no news at the start; one that cannot be talked to is.
      if problem.code == 'protocol_mismatch' and not rpc.said_before(problem) then
        notify.background('mado: ' .. tostring(problem), vim.log.levels.WARN, 'mismatch')
      end
      return
    end
    local running = {}
    for _, agent in ipairs(require('mado.state').agents(project)) do
      if agent.phase ~= 'exited' then
        running[#running + 1] = ('%s (%s)'):format(agent.name, agent.phase)
      end
    end
    if #running == 0 then
      rpc.leave(project)
      mention_file()
    else
      local text = 'mado: %s %s here, :Mado attach shows %s'
      local plural = #running > 1
      notify.background(
        text:format(
          table.concat(running, ', '),
          plural and 'run' or 'runs',
          plural and 'them' or 'it'
        ),
        vim.log.levels.INFO,
        'greet'
      )
    end
  end)
end

return M
