-- Hands out clicks that are due, and lets them gather nothing any more.
--
-- KEYS: the shard's sorted set of open clicks, counters. ARGV: prefix of the keys of clicks, time,
-- number to pass over, number to hand out at most. Returns {id, fields and values} of each; no
-- fields are left of a click that nobody closed in time.
--
-- HDEL is the mark, not HSET: out of memory, Redis lets it pass, and closing frees memory.

local open, counters = unpack(KEYS)
local prefix, before, offset, limit = unpack(ARGV)

local found = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', open, '-inf', before, 'LIMIT', offset, limit)) do
  redis.call('HDEL', prefix .. id, 'open')
  local fields = redis.call('HGETALL', prefix .. id)
  if #fields == 0 then
    redis.call('ZREM', open, id)
    redis.call('HINCRBY', counters, 'expired', 1)
  end
  found[#found + 1] = { id, fields }
end
return found
