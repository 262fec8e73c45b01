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

-- The same of those that the blocks hold: of `places`, or of all ids.
local function find_in_blocks(packed, number, ids, places, known)
  local found = 0
  for from = 1, places and #places or #ids, AT_ONCE do
    local fields, looked = {}, {}
    for at = from, math.min(from + AT_ONCE - 1, places and #places or #ids) do
      local place = places and places[at] or at
      looked[#looked + 1] = place
      fields[#fields + 1] = string.format('%d', struct.unpack('<I4', ids[place]) % number)
    end
    local blocks = redis.call('HMGET', packed, unpack(fields))
    for at, place in ipairs(looked) do
      if blocks[at] and not known[place] and is_in_block(blocks[at], ids[place]) then
        known[place] = true
        found = found + 1
      end
    end
  end
  return found
end

-- The same of the packed ones, with what the request knows of them: a filter of the same blocks
-- rules out all ids but some. `filter.is_other` notes where it is of others.
local function find_packed(packed, ids, filter, known)
  local made, blocks = unpack(redis.call('HMGET', packed, 'made', 'blocks'))
  local number = tonumber(blocks or 0)
  if not (number and number >= 1) then
    return 0 -- a damaged one must not refuse the events of the hour
  end
  filter.is_other = made ~= filter.made or made == ''
  local places = nil
  if not filter.is_other then
    places = {}
    for at = 1, #filter.suspects, 4 do
      places[#places + 1] = struct.unpack('<I4', filter.suspects, at) + 1
    end
  end
  return find_in_blocks(packed, number, ids, places, known)
end

-- Files ids that are not known in their set, nor among those that were set apart before: by their
-- names, moved or packed. `with_ids` is the number of their block among those with ids. Notes in
-- `known` the places of the others; returns their number.
local function file_ids(set, with_ids, ids, names, life, filter, known)
  local duplicates, seen = find_in_set(set, ids, known), 3 * with_ids - 1
  local is_moved, is_packed = moved[with_ids] > 0, packed[with_ids] > 0
  if names ~= '' then
    duplicates = duplicates + find_in_set(KEYS[seen], cmsgpack.unpack(names), known)
  end
  if is_moved then
    duplicates = duplicates + find_in_set(KEYS[seen + 1], ids, known)
  end
  if is_packed then
    duplicates = duplicates + find_packed(KEYS[seen + 2], ids, filter, known)
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
  if is_moved then
    redis.call('EXPIRE', KEYS[seen + 1], life)
  end
  if is_packed then
    redis.call('EXPIRE', KEYS[seen + 2], life)
  end
  return duplicates
end
