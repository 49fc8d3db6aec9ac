local arg0 = vim.fs.dirname(vim.uv.fs_realpath(arg[0]))
local H = dofile(arg0 .. '/harness.lua')
local test, eq = H.test, H.eq

-- The tags of the help file, each where it is set.
local tags = {}
for line in io.lines(H.root .. '/doc/mado.txt') do
  for tag in line:gmatch('%*([^%s*]+)%*') do
    eq(nil, tags[tag], tag .. ' is set once')
    tags[tag] = true
  end
end

local function documented(tag)
  eq(true, tags[tag], tag .. ' has a tag in doc/mado.txt')
end

test('every command is documented', function()
  documented(':Mado')
  for _, name in ipairs(require('mado.commands').names()) do
    documented(':Mado-' .. name)
    documented(':Mado' .. name:sub(1, 1):upper() .. name:sub(2))
  end
end)

test('every option is documented', function()
  for key in pairs(require('mado.config').defaults) do
    documented('mado-config-' .. key)
  end
  local text = table.concat(vim.fn.readfile(H.root .. '/doc/mado.txt'), '\n')
  for _, name in ipairs(require('mado.options').names()) do
    H.has(text, '\n' .. name .. '= ')
  end
end)

test('every function is documented', function()
  for name, value in pairs(require('mado')) do
    if type(value) == 'function' then
      documented(('mado.%s()'):format(name))
    end
  end
end)

test('every mapping exists in all three modes and is documented', function()
  vim.cmd.runtime('plugin/mado.lua')
  local found = 0
  for _, mode in ipairs({ 'n', 'i', 't' }) do
    for _, map in ipairs(vim.api.nvim_get_keymap(mode)) do
      if map.lhs:match('^<Plug>%(mado%-') then
        documented(map.lhs)
        found = found + 1
      end
    end
  end
  eq(3 * 9, found)
end)

test('every event and highlight group is documented', function()
  local text = table.concat(vim.fn.readfile(H.root .. '/lua/mado/events.lua'), '\n')
  for name in text:gmatch("fire%('(%w+)'") do
    documented(name)
  end
  text = table.concat(vim.fn.readfile(H.root .. '/lua/mado/list.lua'), '\n')
  for name in text:gmatch('\n  (Mado%w+) = ') do
    documented('hl-' .. name)
  end
end)

test('every link of the help file leads somewhere', function()
  local elsewhere = { User = true, terminal = true, E948 = true }
  local text = table.concat(vim.fn.readfile(H.root .. '/doc/mado.txt'), '\n')
  for link in text:gmatch('|([^%s|]+)|') do
    if not elsewhere[link] and link ~= 'restart' then
      documented(link)
    end
  end
end)

H.run()
