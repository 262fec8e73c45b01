-- Puts folded bins in the place of those that were read, unless another has done so.
--
-- KEYS: bins, the shard's sorted set of hours. ARGV: name of the log in it, ttl in seconds, folds
--   that the fold saw, names and values of the fields of the bins.
-- Returns 1, or 0 when another fold came first and nothing was done.

local bins, hours = unpack(KEYS)
local member, ttl, folds = unpack(ARGV, 1, 3)

if (redis.call('HGET', bins, 'folds') or '0') ~= folds then
  return 0
end

local next_fold = (tonumber(folds) or 0) + 1
redis.call('HSET', bins, 'folds', next_fold, unpack(ARGV, 4))
redis.call('EXPIRE', bins, ttl)

local now = tonumber(redis.call('TIME')[1])
redis.call('ZADD', hours, now + ttl, member)
redis.call('ZREMRANGEBYSCORE', hours, '-inf', now)
return 1
