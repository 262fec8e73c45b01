-- Hands out clicks that are due, and lets them gather nothing any more.
--
-- KEYS: the shard's sorted set of open clicks, counters. ARGV: prefix of the keys of clicks, time,
-- number to pass over, number to hand out at most. Returns {id, fields and values} of each, no
-- fields of a click that nobody closed in time; and names that are damaged, which it takes out.
--
-- HDEL is the mark, not HSET: out of memory, Redis lets it pass, and closing frees memory.

-- include click_names

local open, counters = unpack(KEYS)
local prefix, before, offset, limit = unpack(ARGV)

local found, damaged = {}, {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', open, '-inf', before, 'LIMIT', offset, limit)) do
  local id = click_of_name(name)
  local fields = id and redis.call('HGETALL', prefix .. id) or {}
  if #fields > 0 or id and id ~= name then
    redis.call('HDEL', prefix .. id, 'open')
    if #fields == 0 then
      redis.call('ZREM', open, name)
      redis.call('HINCRBY', counters, 'expired', 1)
    end
    found[#found + 1] = { id, fields }
  else -- a bare name of no click, too
    redis.call('ZREM', open, name)
    damaged[#damaged + 1] = name
  end
end
return { found, damaged }
