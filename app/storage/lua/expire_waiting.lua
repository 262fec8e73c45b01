-- Forgets behaviours whose click never came.
--
-- KEYS: the shard's sorted set of clicks that are waited for, counters. ARGV: prefix of the keys of
-- clicks, now, number of clicks to give up at most. Returns {clicks given up, their behaviours,
-- names that are damaged}.
--
-- ZREM is the first write: a full store lets it pass, and then the rest.

-- include click_names

local waiting, counters = unpack(KEYS)
local prefix, now, limit = unpack(ARGV)

local orphans, damaged = 0, {}
local expired = redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, limit)
for _, name in ipairs(expired) do
  -- First, for it fails where a cluster has moved the click away, and nothing is done then.
  local id = click_of_name(name)
  local behaviours = id and redis.call('HLEN', prefix .. id) or 0
  redis.call('ZREM', waiting, name)
  if behaviours > 0 then
    orphans = orphans + behaviours
    redis.call('UNLINK', prefix .. id)
  else
    damaged[#damaged + 1] = name -- what it stood for expires by itself
  end
end
if orphans > 0 then
  redis.call('HINCRBY', counters, 'orphans', orphans)
end
return { #expired, orphans, damaged }
