-- What the Lua tests share: tests that are run one after the other, and plain assertions. Each test file is run by
-- `nvim --clean --headless -l FILE` in a process of its own, started by tests/nvim_unit.rs.

local H = {}

local root =
  vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(vim.fs.normalize(vim.uv.fs_realpath(arg[0])))))
H.root = root
vim.opt.runtimepath:prepend(root)
package.path = root .. '/tests/nvim/?.lua;' .. package.path

local tests = {}

function H.test(name, fn)
  tests[#tests + 1] = { name = name, fn = fn }
end

function H.eq(want, got, what)
  if not vim.deep_equal(want, got) then
    local text = '%sexpected %s\n     got %s'
    error(text:format(what and (what .. ': ') or '', vim.inspect(want), vim.inspect(got)), 2)
  end
end

function H.ok(value, what)
  if not value then
    error(what or 'expected something true, got ' .. vim.inspect(value), 2)
  end
  return value
end

---Asserts that a text holds another, literally.
function H.has(text, part)
  if not (type(text) == 'string' and text:find(part, 1, true)) then
    error(('expected %s to hold %s'):format(vim.inspect(text), vim.inspect(part)), 2)
  end
end

---Runs the event loop until a condition holds; a test that waits in vain fails, and says for what.
function H.wait(what, condition)
  if not vim.wait(10000, condition, 5) then
    error('waited in vain for: ' .. what, 2)
  end
end

---Lets everything that is scheduled now run.
function H.settle()
  local done = false
  vim.defer_fn(function()
    done = true
  end, 20)
  vim.wait(1000, function()
    return done
  end, 2)
end

H.builtin_notify = vim.notify

---Catches what is said instead of showing it.
function H.catch_messages()
  local said = {}
  rawset(vim, 'notify', function(text, level, opts)
    said[#said + 1] = { text = text, level = level, opts = opts }
  end)
  return said
end

---Another Neovim with the plugin, driven by keys as a person does it. It inherits the environment, so it finds the host
---that a test plays.
function H.child()
  local chan = vim.fn.jobstart(
    { vim.v.progpath, '--clean', '--headless', '--embed', '--cmd', 'set rtp^=' .. root },
    { rpc = true }
  )
  local child = { chan = chan }
  function child.lua(code, ...)
    return vim.rpcrequest(chan, 'nvim_exec_lua', code, { ... })
  end
  function child.keys(keys)
    vim.rpcrequest(chan, 'nvim_input', keys)
  end
  ---Waits until a Lua expression holds there.
  function child.wait(expression)
    H.wait(expression .. ' in the other Neovim', function()
      return child.lua('return ' .. expression)
    end)
  end
  function child.stop()
    vim.fn.jobstop(chan)
    vim.fn.jobwait({ chan }, 5000)
  end
  -- Without a terminal of its own it may know no size.
  child.lua('vim.o.columns, vim.o.lines = 120, 40')
  return child
end

function H.run()
  local failed = 0
  for _, test in ipairs(tests) do
    local ok, problem = xpcall(test.fn, debug.traceback)
    print(('%s - %s'):format(ok and 'ok' or 'NOT OK', test.name))
    if not ok then
      failed = failed + 1
      print('    ' .. tostring(problem):gsub('\n', '\n    '))
    end
  end
  print(('%d tests, %d failed'):format(#tests, failed))
  os.exit(failed == 0 and #tests > 0 and 0 or 1)
end

return H
