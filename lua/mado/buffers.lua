-- `mado://…` as file names: `:edit mado://hop/7`, `:split mado://agent/planner`, `:edit mado://answer/planner`.

local M = {}

local kinds = {}

function kinds.hop(buf, rest)
  local id = tonumber(rest)
  if not id then
    return ('"%s" is no number of a hop'):format(rest)
  end
  require('mado.hop').read(buf, id)
end

function kinds.preview(buf, rest)
  local id = tonumber(rest)
  if not id then
    return ('"%s" is no number of a hop'):format(rest)
  end
  return require('mado.preview').read(buf, id)
end

function kinds.answer(buf, rest)
  vim.bo[buf].buftype = 'nofile'
  require('mado.verbs').answer({ agent = rest }, function(reply, problem)
    if problem then
      require('mado.notify').error(problem)
    elseif vim.api.nvim_buf_is_loaded(buf) then
      require('mado.answer').fill(reply, buf)
    end
  end)
end

-- The last screen of an agent that has ended is gone once its buffer was unloaded.
function kinds.ended(buf, rest)
  vim.bo[buf].buftype = 'nofile'
  return ('%s has ended, and its last screen is gone'):format(rest)
end

function kinds.agent(buf, rest)
  local project = require('mado.project').current()
  -- The buffer that was made for this name only holds the place until the view is there.
  vim.bo[buf].buftype = 'nofile'
  vim.bo[buf].bufhidden = 'wipe'
  require('mado.rpc').connect(project, {}, function(problem)
    local name = rest:gsub('#%d+$', '')
    local info = not problem and require('mado.state').agent_named(project, name)
    if info then
      require('mado.split').when_free(function()
        require('mado.window').show_in(info, buf)
      end)
    else
      require('mado.notify').error(problem or ('no agent %s runs here (:Mado agents)'):format(name))
    end
  end)
end

---Called for every `mado://` name that is opened.
---@param buf integer
---@param name string
function M.read(buf, name)
  local kind, rest = name:match('^mado://(%a+)/(.+)$')
  local problem
  if kinds[kind] then
    problem = kinds[kind](buf, rest)
  else
    problem = ('%s: expected mado://hop/{id}, mado://preview/{id}, mado://agent/{name} or mado://answer/{name}'):format(
      name
    )
  end
  if problem then
    require('mado.notify').error(problem)
  end
end

return M
