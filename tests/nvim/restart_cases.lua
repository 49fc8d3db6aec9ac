-- What a person notices of an agent that is started again, in an editor that is driven by keys: a part of
-- window_test.lua, which plays the host.

return function(H, fake, project)
  local test, eq, has = H.test, H.eq, H.has

  for _, where in ipairs({ 'shown', 'hidden' }) do
    test('an agent is started again while the command-line window is open, ' .. where, function()
      local info = fake:agent({ id = 50, name = 'helper' })
      table.insert(fake.agents, info)
      local child = H.child()
      child.lua('require("mado").attach("helper")')
      child.wait('vim.b.mado_agent == "helper"')
      child.lua('OLD = vim.api.nvim_get_current_buf() vim.cmd.stopinsert()')
      child.keys('<C-\\><C-n>:new<CR>:only<CR>')
      if where == 'shown' then
        child.keys(':buffer mado://agent/helper<CR>')
      end
      child.keys('q:')
      child.wait('vim.fn.getcmdwintype() == ":"')
      info.pid = 200
      fake:emit('agent', info)
      child.wait('require("mado.state").agent_by_id(' .. info.id .. ').pid == ' .. info.pid)
      child.lua('vim.fn.jobstop(vim.b[OLD].terminal_job_id)')
      child.wait('vim.fn.jobwait({ vim.b[OLD].terminal_job_id }, 0)[1] ~= -1')
      child.lua('vim.wait(50)')
      child.keys('<C-c><Esc>')
      child.wait('not vim.api.nvim_buf_is_valid(OLD)')
      eq('', child.lua('return vim.v.errmsg'))
      eq('', child.lua('return vim.fn.getcmdwintype()'))
      eq(where == 'shown' and 'helper' or vim.NIL, child.lua('return vim.b.mado_agent'))
      child.lua('require("mado").attach("helper")')
      child.wait('vim.b.mado_agent == "helper"')
      child.stop()
      table.remove(fake.agents)
      fake:emit('agent_gone', { id = 50, name = 'helper', project = project })
    end)
  end

  test('a command says why the command-line window stops it', function()
    local child = H.child()
    child.keys('q:')
    child.wait('vim.fn.getcmdwintype() == ":"')
    child.lua('require("mado").attach("planner")')
    child.wait('vim.fn.execute("messages"):find("CTRL%-C") ~= nil')
    local messages = child.lua('return vim.fn.execute("messages")')
    has(messages, 'mado: the command-line window lets no other be shown (leave it: CTRL-C)')
    child.stop()
  end)

  test('a person stays in terminal mode while the agent is started again, typing or not', function()
    local info = fake:agent({ id = 51, name = 'typist' })
    table.insert(fake.agents, info)
    local child = H.child()
    -- However slow the machine is.
    child.lua('require("mado.mode").HOLD_MS = 20000')
    child.lua('require("mado").attach("typist")')
    child.wait('vim.b.mado_agent == "typist" and vim.api.nvim_get_mode().mode == "t"')
    child.lua('OLD = vim.api.nvim_get_current_buf()')
    child.lua('vim.fn.jobstop(vim.b[OLD].terminal_job_id)')
    child.wait('vim.fn.jobwait({ vim.b[OLD].terminal_job_id }, 0)[1] ~= -1')
    -- As a key this would wipe out the terminal, as commands it would delete lines behind it.
    child.keys('xxdd')
    child.lua('vim.wait(50)')
    info.pid = 200
    fake:emit('agent', info)
    child.wait('vim.api.nvim_get_current_buf() ~= OLD and vim.api.nvim_get_mode().mode == "t"')
    child.keys('hello<CR>')
    child.wait('table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false)):find("hello") ~= nil')
    eq('typist', child.lua('return vim.b.mado_agent'))
    eq('', child.lua('return vim.v.errmsg'))
    -- Whoever leaves terminal mode means the keys that follow for Neovim.
    child.lua('OLD = vim.api.nvim_get_current_buf() vim.fn.jobstop(vim.b.terminal_job_id)')
    child.wait('vim.fn.jobwait({ vim.b[OLD].terminal_job_id }, 0)[1] ~= -1')
    child.keys('xx<C-\\><C-n>:let g:typed = 1<CR>')
    child.wait('vim.g.typed == 1')
    child.stop()
    table.remove(fake.agents)
    fake:emit('agent_gone', { id = 51, name = 'typist', project = project })
  end)
end
