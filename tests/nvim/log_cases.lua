-- The log as commands open it: a part of commands_test.lua, which plays the host.

local state = require('mado.state')

---@param run fun(command: string) runs a command
---@param refused fun(command: string): string runs one that must not reach the host, and returns what it says
return function(H, fake, run, refused)
  local test, eq, has, ok = H.test, H.eq, H.has, H.ok

  local function log_of(route)
    run('Mado log ' .. route)
    local list
    H.wait('the log of ' .. route, function()
      list = vim.fn.getqflist({ title = 0, items = 0 })
      return list.title == 'mado log ' .. route
    end)
    vim.cmd('cclose')
    return vim.tbl_map(function(item)
      return item.user_data
    end, list.items)
  end

  test(
    'the log of a route goes by its number, and for hops of earlier hosts by the names',
    function()
      local now = os.time() * 1000 + 60000
      local hops = {
        -- Of an earlier host, whose route 7 was another and whose route 3 had these names.
        fake:hop({ id = 1, route = 7, source = 'x', target = 'y' }),
        fake:hop({ id = 2, route = 3 }),
        -- Of this host: before a rename, after it, of another route, of none.
        fake:hop({ id = 3, route = 7, source = 'old', times = { fired = now } }),
        fake:hop({ id = 4, route = 7, times = { fired = now } }),
        fake:hop({ id = 5, route = 8, times = { fired = now } }),
        fake:hop({ id = 6, times = { fired = now }, source = '' }),
      }
      hops[6].route = nil
      for _, hop in ipairs(hops) do
        state.hop(hop)
      end
      eq({ 2, 3, 4 }, log_of('7'))
      eq({ 2, 3, 4 }, log_of('planner->reviewer'))
      eq({ 5 }, log_of('8'), 'a route that is gone is known by its hops')
      eq({ 1 }, log_of('x->y'))
    end
  )

  test('the log of a route that there never was is an error', function()
    local before = vim.fn.getqflist({ title = 0 }).title
    eq(
      'mado: there is no route "planner->reviwer", did you mean "planner->reviewer"? (known: planner->reviewer)',
      refused('Mado log planner->reviwer')
    )
    has(refused('Mado log 99'), 'there is no route "99"')
    eq(before, vim.fn.getqflist({ title = 0 }).title)
    eq(1, #vim.api.nvim_list_wins())
  end)

  test('the log opens at its newest hop, unless it is being read', function()
    run('Mado log')
    H.wait('the log', function()
      return vim.bo.buftype == 'quickfix'
    end)
    local last = vim.api.nvim_buf_line_count(0)
    ok(last > 3)
    eq(last, vim.api.nvim_win_get_cursor(0)[1])
    vim.cmd('normal! gg')
    run('Mado log')
    H.settle()
    eq(1, vim.api.nvim_win_get_cursor(0)[1], 'it is being read')
    vim.cmd('cclose')
    run('Mado log')
    H.wait('the log', function()
      return vim.bo.buftype == 'quickfix'
    end)
    eq(last, vim.api.nvim_win_get_cursor(0)[1])
    vim.cmd('cclose')
  end)

  ---Opens the log from an agent's window, and its second entry with Enter.
  local function enter_second_entry()
    run('Mado log')
    H.wait('the log', function()
      return vim.bo.buftype == 'quickfix'
    end)
    vim.cmd('normal! 2G')
    vim.api.nvim_feedkeys(vim.keycode('<CR>'), 'xt', false)
  end

  test('an entry of the log opens beside the agents', function()
    vim.cmd('only')
    local text = vim.api.nvim_get_current_win()
    vim.cmd('vsplit')
    local agent, buf = vim.api.nvim_get_current_win(), vim.api.nvim_create_buf(true, false)
    vim.api.nvim_win_set_buf(agent, buf)
    vim.fn.jobstart({ 'cat' }, { term = true })
    enter_second_entry()
    eq(text, vim.api.nvim_get_current_win(), 'the ordinary window')
    eq('mado://hop/2', vim.api.nvim_buf_get_name(0))
    eq(buf, vim.api.nvim_win_get_buf(agent))
    eq(2, vim.fn.getqflist({ idx = 0 }).idx)
    -- Without another window there is a new one.
    vim.api.nvim_win_close(text, true)
    vim.api.nvim_set_current_win(agent)
    enter_second_entry()
    eq('mado://hop/2', vim.api.nvim_buf_get_name(0))
    eq(buf, vim.api.nvim_win_get_buf(agent))
    eq(3, #vim.api.nvim_tabpage_list_wins(0))
    -- In another list the key is Vim's own.
    vim.fn.setqflist({}, ' ', { items = { { bufnr = buf, lnum = 1, text = 'x' } } })
    vim.cmd('copen')
    vim.api.nvim_feedkeys(vim.keycode('<CR>'), 'xt', false)
    eq(buf, vim.api.nvim_get_current_buf())
    vim.cmd('only!')
    vim.cmd('enew!')
    vim.api.nvim_buf_delete(buf, { force = true })
  end)
end
