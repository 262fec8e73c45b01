-- Forgets behaviours whose click never came.
--
-- KEYS: the shard's sorted set of clicks that are waited for, counters. ARGV: prefix of the keys of
-- clicks, now, number of clicks to give up at most. Returns {clicks given up, their behaviours}.
--
-- ZREM comes first: a full store lets it pass, and then the rest.

-- include click_names

local waiting, counters = unpack(KEYS)
local prefix, now, limit = unpack(ARGV)

local orphans = 0
local expired = redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, limit)
for _, name in ipairs(expired) do
  redis.call('ZREM', waiting, name)
  local id = click_of_name(name)
  if id then -- else its behaviours expire by themselves
    orphans = orphans + redis.call('HLEN', prefix .. id)
    redis.call('UNLINK', prefix .. id)
  end
end
if orphans > 0 then
  redis.call('HINCRBY', counters, 'orphans', orphans)
end
return { #expired, orphans }
