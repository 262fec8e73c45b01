-- Tells which events of a block are known by their ids, and files the others. Part of append.lua;
-- `app.storage.ids` tells what the keys hold.

local ID_BYTES = 8

-- Notes in `known` the places of those that the set holds; returns their number.
local function find_in_set(set, members, known)
  local found = 0
  for from = 1, #members, AT_ONCE do
    local to = math.min(from + AT_ONCE - 1, #members)
    local held = redis.call('SMISMEMBER', set, unpack(members, from, to))
    for at = 1, #held do
      if held[at] == 1 and not known[from + at - 1] then
        known[from + at - 1] = true
        found = found + 1
      end
    end
  end
  return found
end

local function is_in_block(block, id)
  local at = string.find(block, id, 1, true)
  while at and at % ID_BYTES ~= 1 do
    at = string.find(block, id, at + 1, true)
  end
  return at ~= nil
end

-- The same of those that the blocks hold.
local function find_in_blocks(packed, ids, known)
  local number = tonumber(redis.call('HGET', packed, 'blocks') or 0)
  if number == 0 then
    return 0
  end
  local found = 0
  for from = 1, #ids, AT_ONCE do
    local fields = {}
    for at = from, math.min(from + AT_ONCE - 1, #ids) do
      fields[#fields + 1] = string.format('%d', struct.unpack('<I4', ids[at]) % number)
    end
    local blocks = redis.call('HMGET', packed, unpack(fields))
    for at = 1, #fields do
      local place = from + at - 1
      if blocks[at] and not known[place] and is_in_block(blocks[at], ids[place]) then
        known[place] = true
        found = found + 1
      end
    end
  end
  return found
end

-- The same of those that were set apart: by their names, moved or packed, the keys of number
-- `first` and the next two. Returns the number, and the keys that live on where some are in them.
local function find_older(first, ids, names, known)
  local seen, moved, packed = unpack(KEYS, first, first + 2)
  local found = names ~= '' and find_in_set(seen, cmsgpack.unpack(names), known) or 0
  if redis.call('EXISTS', moved, packed) == 0 then
    return found
  end
  found = found + find_in_set(moved, ids, known) + find_in_blocks(packed, ids, known)
  return found, { moved, packed }
end

-- Files ids that are not known in their set, nor among the older ones if there are any. Notes in
-- `known` the places of the others; returns their number.
local function file_ids(set, first_older, ids, names, life, known)
  local duplicates, older, living = find_in_set(set, ids, known), 0, nil
  if first_older then
    older, living = find_older(first_older, ids, names, known)
    duplicates = duplicates + older
  end
  local new = ids
  if duplicates > 0 then
    new = {}
    for at = 1, #ids do
      new[#new + 1] = not known[at] and ids[at] or nil
    end
  end
  for from = 1, #new, AT_ONCE do
    redis.call('SADD', set, unpack(new, from, math.min(from + AT_ONCE - 1, #new)))
  end
  redis.call('EXPIRE', set, life)
  for _, key in ipairs(living or {}) do
    redis.call('EXPIRE', key, life)
  end
  return duplicates
end
