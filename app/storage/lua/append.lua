-- Stores one request: all of it, or nothing.
--
-- KEYS: the request's record; per block with ids those of its log as they were stored before there
--   were hashes, those that are moved, those that are packed; per block of events its log, its
--   shard's set of logs, its shard's sorted set of hours, and if it has ids the log's ids; per block
--   of conversions its log and its shard's set of logs.
-- ARGV: ttl in seconds; life of the record in seconds, 0 if the request has no idempotency key; its
--   fingerprint; its click events, packed, or nothing; number of blocks with ids; 1 if their names
--   are given; number of blocks of events; 1 if rows of duplicates are asked for; per block: name of
--   the log in the sets, its bytes, the numbers of the click events that are its last rows (u4
--   each), the hashes of the ids of its other rows as a MessagePack array, or nothing twice if it
--   counts as it is, and if it has ids: their life in seconds, their names as a MessagePack array, or
--   nothing, which filter there is of packed ids, the places (u4 each) of the ids that it does not
--   rule out; per block of conversions: name of the log in the set, its bytes, the numbers of its
--   click events.
-- Returns {0 stored | 1 stored before | 2 the key belongs to another request | 3 nothing is stored
--   yet, for the names of ids are needed, duplicates, {place, reason, detail} of each click event
--   that was refused, number of each block with ids whose filter was another, if asked for {number,
--   rows} of each block with ids that has duplicates}.
--
-- Redis refuses a script's first write when it is out of memory, never a later one, so nothing is
-- ever half stored. Here the first write is one that it can refuse (SET, SADD, HSET, ZADD, RPUSH).

local AT_ONCE = 1000 -- unpack() overflows Lua's stack at about 8000
local NO_IDS = 5 -- bytes of a MessagePack array of nothing

local ttl, record_life, fingerprint = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local last_of_older, with_names = 1 + 3 * tonumber(ARGV[5]), ARGV[6] == '1'
local blocks, with_rows, FIRST = tonumber(ARGV[7]), ARGV[8] == '1', 9

-- include click_events

local given = ARGV[4] ~= '' and cmsgpack.unpack(ARGV[4])

-- Of each block with ids: what there is of ids that are stored by their names, moved, packed.
local by_name, moved, packed = 0, {}, {}

-- A wrong type under a key is an error before anything is written: nothing is half stored by it.
local function meet_wrong_types()
  for older = 2, last_of_older, 3 do
    by_name = by_name + redis.call('SCARD', KEYS[older])
    moved[#moved + 1] = redis.call('SCARD', KEYS[older + 1])
    packed[#packed + 1] = redis.call('HLEN', KEYS[older + 2])
  end
  local key, argument = last_of_older + 1, FIRST
  for _ = 1, blocks do
    redis.call('LLEN', KEYS[key])
    redis.call('SCARD', KEYS[key + 1])
    redis.call('ZCARD', KEYS[key + 2])
    if #ARGV[argument + 3] > NO_IDS then
      redis.call('SCARD', KEYS[key + 3])
      key, argument = key + 1, argument + 4
    end
    key, argument = key + 3, argument + 4
  end
  for of_conversions = key, #KEYS, 2 do
    redis.call('LLEN', KEYS[of_conversions])
    redis.call('SCARD', KEYS[of_conversions + 1])
  end
  if given then
    meet_wrong_types_of_clicks(given)
  end
end

meet_wrong_types()

if record_life > 0 then
  local stored = redis.call('GET', KEYS[1])
  if stored then
    -- Behind the fingerprint and a line's end is what was refused, if anything was.
    local ending = string.find(stored, '\n', 1, true)
    local known = ending and string.sub(stored, 1, ending - 1) or stored
    local refused = ending and cmsgpack.unpack(string.sub(stored, ending + 1)) or {}
    return { known == fingerprint and 1 or 2, 0, refused }
  end
end

if by_name > 0 and not with_names then
  return { 3, 0, {} }
end

if record_life > 0 then
  redis.call('SET', KEYS[1], fingerprint, 'EX', record_life)
end

-- include event_ids

local now = tonumber(redis.call('TIME')[1])
local statuses, refused, duplicates, unfiltered, repeated = {}, {}, 0, {}, {}
if given then
  statuses, refused, duplicates = click_events(now, ttl, given)
  if record_life > 0 and #refused > 0 then
    redis.call('SET', KEYS[1], fingerprint .. '\n' .. cmsgpack.pack(refused), 'EX', record_life)
  end
end

-- Notes in `left_out` the rows, from `first` on, of click events that do not count; returns how many.
local function leave_events_out(numbers, first, left_out)
  local found = 0
  for at = 1, #numbers, 4 do
    if statuses[struct.unpack('<I4', numbers, at) + 1] ~= 0 then
      left_out[first + (at - 1) / 4] = true
      found = found + 1
    end
  end
  return found
end

local function rows_of(left_out)
  local rows = {}
  for row in pairs(left_out) do
    rows[#rows + 1] = row - 1
  end
  return rows
end

-- The block as it is stored, if anything of it is: with a mark a row if some are left out.
local function marked(block, rows, left_out, found)
  if found == 0 then
    return block
  elseif found == rows then
    return nil
  end
  local marks = {}
  for row = 1, rows do
    marks[row] = left_out[row] and '\1' or '\0'
  end
  local text = table.concat(marks)
  local digest = redis.sha1hex(string.sub(block, 11, 14) .. text) -- of the block's CRC-32 and them
  return block .. text .. string.sub(digest, 1, 8)
end

local expiry = now + ttl

local function store(log, logs, hours, name, block)
  -- Without an end: what was acknowledged is there until it is folded.
  redis.call('RPUSH', log, block)
  redis.call('SADD', logs, name)
  redis.call('ZADD', hours, expiry, name)
end

local with_ids, key, argument = 0, last_of_older + 1, FIRST
for _ = 1, blocks do
  local log, logs, hours = unpack(KEYS, key, key + 2)
  local name, block, numbers, ids = unpack(ARGV, argument, argument + 3)
  key, argument = key + 3, argument + 4
  if ids ~= '' then
    local given, left_out, known = cmsgpack.unpack(ids), {}, 0
    if #given > 0 then
      local life, names, made, suspects = unpack(ARGV, argument, argument + 3)
      local filter = { made = made, suspects = suspects }
      with_ids = with_ids + 1
      known = file_ids(KEYS[key], with_ids, given, names, life, filter, left_out)
      if filter.is_other then
        unfiltered[#unfiltered + 1] = with_ids - 1
      end
      if with_rows and known > 0 then
        repeated[#repeated + 1] = { with_ids - 1, rows_of(left_out) }
      end
      key, argument = key + 1, argument + 4
    end
    local uncounted = leave_events_out(numbers, #given + 1, left_out)
    block = marked(block, #given + #numbers / 4, left_out, known + uncounted)
    -- The trials of a product are of impressions that are counted as events already.
    if not string.find(name, ':product:', 1, true) then
      duplicates = duplicates + known
    end
  end
  if block then
    store(log, logs, hours, name, block)
  end
end

while key < #KEYS do
  local log, logs = unpack(KEYS, key, key + 1)
  local name, block, numbers = unpack(ARGV, argument, argument + 2)
  key, argument = key + 2, argument + 3
  local left_out = {}
  block = marked(block, #numbers / 4, left_out, leave_events_out(numbers, 1, left_out))
  if block then
    redis.call('RPUSH', log, block)
    redis.call('SADD', logs, name)
  end
end

return { 0, duplicates, refused, unfiltered, repeated }
