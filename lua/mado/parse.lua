-- Reading what a person typed: words, quotes, `key=value`, and help for words that are not known.

local M = {}

local escapes = { n = '\n', t = '\t' }

---Splits a command line into words. `"…"` and `'…'` may stand anywhere in a word; inside double quotes `\n`,
---`\t`, `\"` and `\\` are read, inside single quotes everything is literal.
---@param text string
---@return { text: string, first: integer, last: integer, quoted: boolean, key: string?, value: string? }[]? words
---@return string? problem
function M.words(text)
  local words, i, n = {}, 1, #text
  while true do
    i = text:find('%S', i)
    if not i then
      return words
    end
    local first, out, quoted, eq = i, {}, false, nil
    while i <= n and not text:sub(i, i):match('%s') do
      local c = text:sub(i, i)
      -- An apostrophe inside a word (`don't`) is an apostrophe; a quote opens a word or a value.
      local opens = i == first or text:sub(i - 1, i - 1) == '='
      if (c == '"' or c == "'") and opens then
        quoted = true
        i = i + 1
        while true do
          local d = text:sub(i, i)
          if d == '' then
            return nil, ('unfinished quote: %s'):format(text:sub(first))
          elseif d == c then
            i = i + 1
            break
          elseif c == '"' and d == '\\' and i < n then
            local e = text:sub(i + 1, i + 1)
            out[#out + 1] = escapes[e] or (e:match('["\\]') and e) or ('\\' .. e)
            i = i + 2
          else
            out[#out + 1] = d
            i = i + 1
          end
        end
      else
        if c == '=' and not eq and not quoted then
          eq = #out + 1
        end
        out[#out + 1] = c
        i = i + 1
      end
    end
    local word = { text = table.concat(out), first = first, last = i - 1, quoted = quoted }
    if eq then
      word.key = table.concat(out, '', 1, eq - 1)
      word.value = table.concat(out, '', eq + 1)
    end
    words[#words + 1] = word
  end
end

---The rest of a command line from a word on, as it was typed. One quoted string is taken out of its quotes.
function M.rest(text, words, from)
  local word = words[from]
  if not word then
    return ''
  elseif from == #words and word.quoted and text:sub(word.first, word.first):match('["\']') then
    return word.text
  end
  return vim.trim(text:sub(word.first))
end

---The Levenshtein distance, enough for names of a few letters.
local function distance(a, b)
  local row = {}
  for j = 0, #b do
    row[j] = j
  end
  for i = 1, #a do
    local diagonal = row[0]
    row[0] = i
    for j = 1, #b do
      local above = row[j]
      local same = a:byte(i) == b:byte(j)
      row[j] = math.min(above + 1, row[j - 1] + 1, diagonal + (same and 0 or 1))
      diagonal = above
    end
  end
  return row[#b]
end

---The known word that is closest to what was typed, if one is close at all.
---@return string?
function M.closest(word, known)
  local best, best_distance
  for _, name in ipairs(known) do
    local d = distance(word:lower(), name:lower())
    if name:sub(1, #word) == word and #word > 1 then
      d = math.min(d, 1)
    end
    if not best or d < best_distance then
      best, best_distance = name, d
    end
  end
  if best and best_distance <= math.max(1, math.floor(#word / 3)) then
    return best
  end
end

---One sentence for a word that is not known: the word, the closest one, and what there is.
---@param what string for example `unknown agent`
---@param known string[]
---@param prefix? string put before the names of the suggestion
function M.unknown(what, word, known, prefix)
  prefix = prefix or ''
  known = vim.deepcopy(known)
  table.sort(known)
  local bare = word:sub(#prefix + 1)
  local near = M.closest(bare, known)
  local text = ('%s "%s"'):format(what, word)
  if near then
    text = ('%s, did you mean "%s"?'):format(text, prefix .. near)
  end
  if #known == 0 then
    return text .. ' (there are none)'
  end
  return ('%s (known: %s)'):format(text, table.concat(known, ', '))
end

return M
