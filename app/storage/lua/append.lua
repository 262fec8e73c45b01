-- Stores one request: all of it, or nothing.
--
-- KEYS: the request's record; per block of events its log, the log's set of seen ids, its shard's
--   set of logs, its shard's sorted set of hours; per block of conversions its log and its shard's
--   set of logs.
-- ARGV: ttl in seconds; 1 if the request has an idempotency key; its fingerprint; its click events,
--   packed, or nothing; number of blocks of events; per block: name of the log in the sets, its
--   bytes, the numbers of the click events that are its last rows (u4 each), the ids of its other
--   rows as a MessagePack array, or nothing twice if it counts as it is; per block of conversions:
--   name of the log in the set, its bytes, the numbers of its click events.
-- Returns {0 stored | 1 stored before | 2 the key belongs to another request, duplicates,
--   {place, reason, detail} of each click event that was refused}.
--
-- Redis refuses a script's first write when it is out of memory, never a later one, so nothing is
-- ever half stored. Here the first write is one that it can refuse (SET, SADD, HSET, ZADD, RPUSH).

local IDS_AT_ONCE = 1000 -- unpack() overflows Lua's stack at about 8000

local ttl, with_key, fingerprint = tonumber(ARGV[1]), ARGV[2], ARGV[3]

-- include click_events

local given = ARGV[4] ~= '' and cmsgpack.unpack(ARGV[4])

-- A wrong type under a key is an error before anything is written: nothing is half stored by it.
local function meet_wrong_types(conversions)
  for key = 2, conversions - 1, 4 do
    redis.call('LLEN', KEYS[key])
    redis.call('SCARD', KEYS[key + 1])
    redis.call('SCARD', KEYS[key + 2])
    redis.call('ZCARD', KEYS[key + 3])
  end
  for key = conversions, #KEYS, 2 do
    redis.call('LLEN', KEYS[key])
    redis.call('SCARD', KEYS[key + 1])
  end
  if given then
    meet_wrong_types_of_clicks(given)
  end
end

meet_wrong_types(2 + 4 * tonumber(ARGV[5]))

if with_key == '1' then
  local stored = redis.call('GET', KEYS[1])
  if stored then
    -- Behind the fingerprint and a line's end is what was refused, if anything was.
    local ending = string.find(stored, '\n', 1, true)
    local known = ending and string.sub(stored, 1, ending - 1) or stored
    local refused = ending and cmsgpack.unpack(string.sub(stored, ending + 1)) or {}
    return { known == fingerprint and 1 or 2, 0, refused }
  end
  redis.call('SET', KEYS[1], fingerprint, 'EX', ttl)
end

-- Files the ids, and notes in `left_out` the rows of those that are known; returns their number.
local function file_ids(seen, ids, left_out)
  local duplicates = 0
  for from = 1, #ids, IDS_AT_ONCE do
    local to = math.min(from + IDS_AT_ONCE - 1, #ids)
    local known = redis.call('SMISMEMBER', seen, unpack(ids, from, to))
    for at = 1, #known do
      if known[at] == 1 then
        left_out[from + at - 1] = true
        duplicates = duplicates + 1
      end
    end
    redis.call('SADD', seen, unpack(ids, from, to))
  end
  if #ids > 0 then
    redis.call('EXPIRE', seen, ttl)
  end
  return duplicates
end

local now = tonumber(redis.call('TIME')[1])
local statuses, refused, duplicates = {}, {}, 0
if given then
  statuses, refused, duplicates = click_events(now, ttl, given)
  if with_key == '1' and #refused > 0 then
    redis.call('SET', KEYS[1], fingerprint .. '\n' .. cmsgpack.pack(refused), 'EX', ttl)
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

local key, argument = 2, 6
for _ = 1, tonumber(ARGV[5]) do
  local log, seen, logs, hours = unpack(KEYS, key, key + 3)
  local name, block, numbers, ids = unpack(ARGV, argument, argument + 3)
  key, argument = key + 4, argument + 4
  if ids ~= '' then
    local given, left_out = cmsgpack.unpack(ids), {}
    local known = file_ids(seen, given, left_out)
    local uncounted = leave_events_out(numbers, #given + 1, left_out)
    block = marked(block, #given + #numbers / 4, left_out, known + uncounted)
    duplicates = duplicates + known
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

return { 0, duplicates, refused }
