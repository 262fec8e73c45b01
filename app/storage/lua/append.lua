-- Stores one request: all of it, or nothing.
--
-- KEYS: the request's record; per block of events its log, the log's set of seen ids, its shard's
--   set of logs, its shard's sorted set of hours; per block of conversions its log and its shard's
--   set of logs.
-- ARGV: ttl in seconds; 1 if the request has an idempotency key; its fingerprint; its click events,
--   packed, or nothing; number of blocks of events; per block: name of the log in the sets, its
--   bytes, and then nothing if it counts as it is, or else the number of ids of its first rows, the
--   numbers of the click events that are its other rows (u4 each), ids; per block of conversions:
--   name of the log in the set, its bytes, the numbers of its click events.
-- Returns {0 stored | 1 stored before | 2 the key belongs to another request, duplicates,
--   {place, reason, detail} of each click event that was refused}.
--
-- Redis refuses a script's first write when it is out of memory, never a later one, so nothing is
-- ever half stored. Here the first write is one that it can refuse (SET, SADD, HSET, ZADD, RPUSH).

local IDS_AT_ONCE = 1000 -- unpack() overflows Lua's stack at about 8000

local ttl, with_key, fingerprint = tonumber(ARGV[1]), ARGV[2], ARGV[3]

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

-- include click_events

-- Files the ids ARGV[first..last]; returns one mark a row, and the number of marks that are set.
local function file_ids(seen, first, last)
  local marks, duplicates = {}, 0
  for from = first, last, IDS_AT_ONCE do
    local to = math.min(from + IDS_AT_ONCE - 1, last)
    for _, known in ipairs(redis.call('SMISMEMBER', seen, unpack(ARGV, from, to))) do
      marks[#marks + 1] = string.char(known)
      duplicates = duplicates + known
    end
    redis.call('SADD', seen, unpack(ARGV, from, to))
  end
  if first <= last then
    redis.call('EXPIRE', seen, ttl)
  end
  return marks, duplicates
end

local now = tonumber(redis.call('TIME')[1])
local statuses, refused, duplicates, life = {}, {}, 0, nil
if ARGV[4] ~= '' then
  statuses, refused, duplicates, life = click_events(now, ttl, ARGV[4])
  if with_key == '1' and #refused > 0 then
    redis.call('SET', KEYS[1], fingerprint .. '\n' .. cmsgpack.pack(refused), 'EX', ttl)
  end
end

-- Adds a mark for each click event of these numbers; returns how many of them do not count.
local function mark_events(numbers, marks)
  local left_out = 0
  for at = 1, #numbers, 4 do
    local counts = statuses[struct.unpack('<I4', numbers, at) + 1] == 0
    marks[#marks + 1] = string.char(counts and 0 or 1)
    left_out = left_out + (counts and 0 or 1)
  end
  return left_out
end

-- The block as it is stored, if anything of it is.
local function marked(block, marks, left_out)
  if left_out == 0 then
    return block
  end
  return left_out < #marks and block .. table.concat(marks)
end

local expiry = now + ttl

local function store(log, logs, hours, name, block)
  redis.call('RPUSH', log, block)
  redis.call('EXPIRE', log, ttl)
  redis.call('SADD', logs, name)
  redis.call('ZADD', hours, expiry, name)
end

local key, argument = 2, 6
for _ = 1, tonumber(ARGV[5]) do
  local log, seen, logs, hours = unpack(KEYS, key, key + 3)
  local name, block, ids = unpack(ARGV, argument, argument + 2)
  key, argument = key + 4, argument + 3
  if ids ~= '' then
    local marks, found = file_ids(seen, argument + 1, argument + ids)
    local left_out = found + mark_events(ARGV[argument], marks)
    block = marked(block, marks, left_out)
    duplicates = duplicates + found
    argument = argument + ids + 1
  end
  if block then
    store(log, logs, hours, name, block)
  end
end

while key < #KEYS do
  local log, logs = unpack(KEYS, key, key + 1)
  local name, block, numbers = unpack(ARGV, argument, argument + 2)
  key, argument = key + 2, argument + 3
  local marks = {}
  block = marked(block, marks, mark_events(numbers, marks))
  if block then
    redis.call('RPUSH', log, block)
    redis.call('EXPIRE', log, life)
    redis.call('SADD', logs, name)
  end
end

return { 0, duplicates, refused }
