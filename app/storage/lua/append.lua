-- Stores one request: all of it, or nothing.
--
-- KEYS: the request's record; per block its log, the log's set of seen ids, its shard's set of logs,
--   its shard's sorted set of hours.
-- ARGV: ttl in seconds; 1 if the request has an idempotency key; its fingerprint; per block: name of
--   the log in the sets, its bytes, number of ids (one a row, or 0), ids.
-- Returns {0 stored | 1 stored before | 2 the key belongs to another request, duplicates}.
--
-- Redis refuses a script's first write when it is out of memory, never a later one, so nothing is
-- ever half stored. Here the first write is one that it can refuse (SET, SADD or RPUSH).

local IDS_AT_ONCE = 1000 -- unpack() overflows Lua's stack at about 8000

local ttl, with_key, fingerprint = tonumber(ARGV[1]), ARGV[2], ARGV[3]

if with_key == '1' then
  local stored = redis.call('GET', KEYS[1])
  if stored then
    return { stored == fingerprint and 1 or 2, 0 }
  end
  redis.call('SET', KEYS[1], fingerprint, 'EX', ttl)
end

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
  redis.call('EXPIRE', seen, ttl)
  return marks, duplicates
end

local expiry = tonumber(redis.call('TIME')[1]) + ttl

local function store(log, logs, hours, name, block)
  redis.call('RPUSH', log, block)
  redis.call('EXPIRE', log, ttl)
  redis.call('SADD', logs, name)
  redis.call('ZADD', hours, expiry, name)
end

local argument, duplicates = 4, 0
for key = 2, #KEYS, 4 do
  local log, seen, logs, hours = unpack(KEYS, key, key + 3)
  local name, block, ids = unpack(ARGV, argument, argument + 2)
  argument = argument + 3
  if ids == '0' then
    store(log, logs, hours, name, block)
  else
    local marks, found = file_ids(seen, argument, argument + ids - 1)
    if found == 0 then
      store(log, logs, hours, name, block)
    elseif found < #marks then
      store(log, logs, hours, name, block .. table.concat(marks))
    end
    duplicates = duplicates + found
    argument = argument + ids
  end
end

return { 0, duplicates }
